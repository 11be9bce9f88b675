package device

import (
	"reflect"
	"testing"
)

// testBudget is that of the tests' devices, on whatever machine.
var testBudget = BudgetFor(1 << 40)

// maxStagedBytes is testBudget.Staged.
const maxStagedBytes = 512 << 10

func TestBudgets(t *testing.T) {
	if testBudget.Staged != maxStagedBytes {
		t.Errorf("the largest budget stages %d bytes, tests believe %d", testBudget.Staged, maxStagedBytes)
	}
	for _, tt := range []struct {
		memory int64
		want   int // index in budgets
	}{
		{1, 0},
		{28 << 20, 0}, // MemTotal of 32 MB
		{59 << 20, 1},
		{121 << 20, 2},
		{246 << 20, 2},
		{498 << 20, 3},
		{1 << 40, 3},
		{1<<63 - 1, 3},
	} {
		if got := BudgetFor(tt.memory); got != budgets[tt.want].Budget {
			t.Errorf("%d bytes of memory: got %+v, want %+v", tt.memory, got, budgets[tt.want].Budget)
		}
	}
	if got := BudgetFor(0); got != BudgetFor(machineMemory()) {
		t.Errorf("this machine: got %+v", got)
	}
	if m := machineMemory(); m < 16<<20 || m >= 1<<40 {
		t.Errorf("this machine has %d bytes of memory", m)
	}

	// What must hold of each.
	const largest = 65535 // bytes of an inner packet
	for i := range budgets {
		b := budgets[i].Budget
		if b.Staged < largest || b.Arena < maxDatagram {
			t.Errorf("%+v: no room for the largest packet", b)
		}
		if i == 0 {
			continue
		}
		less, more := reflect.ValueOf(budgets[i-1].Budget), reflect.ValueOf(b)
		for f := range more.NumField() {
			if more.Field(f).Int() < less.Field(f).Int() {
				t.Errorf("%s: %d where there is more memory, %d where there is less", more.Type().Field(f).Name, more.Field(f).Int(), less.Field(f).Int())
			}
		}
	}
	// On 32 MB all that packets take is a few hundred kB.
	small := budgets[0].Budget
	const others = outSize + maxDatagram // out and the TUN
	if sum := small.Staged + 2*small.Arena + others; sum > 450<<10 {
		t.Errorf("%d bytes for packets on 32 MB", sum)
	}
	if kernel := 2 * 2 * (small.ReceiveBuffer + small.SendBuffer); kernel > 3<<20 {
		t.Errorf("%d bytes of the kernel's on 32 MB", kernel)
	}
}

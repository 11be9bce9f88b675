package threads

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFirst(t *testing.T) {
	for _, tt := range []struct {
		main int
		ids  []int
		want int
	}{
		{100, []int{100, 101, 102}, 101},
		{100, []int{105, 103, 100}, 103},
		{32767, []int{32767, 300, 301}, 300}, // numbers began anew
		{32766, []int{300, 32766, 32767}, 32767},
		{100, []int{100}, 0},
	} {
		if got := first(tt.ids, tt.main, 32768); got != tt.want {
			t.Errorf("first of %v after %d: %d, want %d", tt.ids, tt.main, got, tt.want)
		}
	}
}

func niceOf(t *testing.T, id int) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/task/" + strconv.Itoa(id) + "/stat")
	if err != nil {
		t.Skip("a thread has ended") // Go keeps its threads; a locked one ends
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	n, err := strconv.Atoi(f[16])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

var settleOnce sync.Once

// One thread has the lowest priority and the others have not, also when it was the
// monitor that made them.
func TestSettle(t *testing.T) {
	settleOnce.Do(Settle)
	if monitor == 0 || monitor == os.Getpid() {
		t.Fatalf("the monitor is %d", monitor)
	}
	// The monitor hands over the places of goroutines that block in system calls, and
	// makes threads for that.
	var wg sync.WaitGroup
	var pipes [8][2]int
	for i := range pipes {
		if err := unix.Pipe(pipes[i][:]); err != nil {
			t.Fatal(err)
		}
		wg.Add(1)
		go func() { defer wg.Done(); unix.Read(pipes[i][0], make([]byte, 1)); unix.Close(pipes[i][0]) }()
	}
	for len(list()) < len(pipes)+2 {
	}
	Check()
	lowest := 0
	for _, id := range list() {
		switch nice := niceOf(t, id); {
		case id == monitor && nice == monitorNice:
			lowest++
		case nice != workerNice && nice != base:
			t.Errorf("thread %d has nice %d", id, nice)
		}
	}
	if lowest != 1 {
		t.Errorf("%d monitors have nice %d, want 1", lowest, monitorNice)
	}
	if out, err := exec.Command("nice").Output(); err != nil || strings.TrimSpace(string(out)) != strconv.Itoa(max(base, 0)) {
		t.Errorf("a program that we start has nice %s, %v", out, err)
	}
	for _, p := range pipes {
		unix.Write(p[1], []byte{0})
		unix.Close(p[1])
	}
	wg.Wait()
}

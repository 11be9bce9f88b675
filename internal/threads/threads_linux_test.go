package threads

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"wgd/internal/loud"
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

// niceOf returns a thread's nice value; false: it has ended, as one that a goroutine was
// locked to does.
func niceOf(t *testing.T, id int) (nice int, ok bool) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/task/" + strconv.Itoa(id) + "/stat")
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return 0, false
	}
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	n, err := strconv.Atoi(f[16])
	if err != nil {
		t.Fatal(err)
	}
	return n, true
}

var settleOnce sync.Once

// block makes goroutines wait in system calls. The monitor hands over their places, and
// makes threads for that.
func block(t *testing.T) {
	t.Helper()
	const n = 8
	var wg sync.WaitGroup
	var pipes [n][2]int
	for i := range pipes {
		if err := unix.Pipe(pipes[i][:]); err != nil {
			t.Fatal(err)
		}
		wg.Add(1)
		go func() { defer wg.Done(); unix.Read(pipes[i][0], make([]byte, 1)); unix.Close(pipes[i][0]) }()
	}
	t.Cleanup(func() {
		for _, p := range pipes {
			unix.Write(p[1], []byte{0})
			unix.Close(p[1])
		}
		wg.Wait()
	})
	await(t, "threads", func() error {
		if got := len(list()); got < n+2 {
			return fmt.Errorf("%d", got)
		}
		return nil
	})
}

func await(t *testing.T, what string, f func() error) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// One thread has the lowest priority and the others have not, also when it was the
// monitor that made them.
func TestSettle(t *testing.T) {
	settleOnce.Do(Settle)
	if os.Geteuid() != 0 {
		loud.Skip(t, "needs root")
	}
	if monitor == 0 || monitor == os.Getpid() {
		t.Fatalf("the monitor is %d", monitor)
	}
	block(t)
	await(t, "priorities", func() error {
		Check()
		lowest := 0
		for _, id := range list() {
			switch nice, ok := niceOf(t, id); {
			case !ok:
			case id == monitor && nice == monitorNice:
				lowest++
			case nice != workerNice && nice != base:
				return fmt.Errorf("thread %d has nice %d", id, nice)
			}
		}
		if lowest != 1 {
			return fmt.Errorf("%d monitors have nice %d, want 1", lowest, monitorNice)
		}
		return nil
	})
	// A child has what the thread has that makes it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	known.Store(0)
	Check()
	if out, err := exec.Command("nice").Output(); err != nil || strings.TrimSpace(string(out)) != strconv.Itoa(max(base, 0)) {
		t.Errorf("a program that we start has nice %s, %v", out, err)
	}
}

const envAlone = "WGD_TEST_SETTLE"

// What may not raise priorities lowers none, and what has another policy keeps it.
func TestSettleLeavesAlone(t *testing.T) {
	if policy := os.Getenv(envAlone); policy != "" {
		Settle()
		block(t)
		Check()
		for _, id := range list() {
			got, _, _ := unix.RawSyscall(unix.SYS_SCHED_GETSCHEDULER, uintptr(id), 0, 0)
			if nice, ok := niceOf(t, id); ok && (nice != 0 || strconv.Itoa(int(got)) != policy) {
				t.Errorf("thread %d has nice %d and policy %d", id, nice, got)
			}
		}
		return
	}
	if os.Geteuid() != 0 {
		loud.Skip(t, "needs root")
	}
	for _, tt := range []struct {
		name   string
		policy int
		set    func() error
	}{
		{"without the right", unix.SCHED_NORMAL, func() error {
			return unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SYS_NICE, 0, 0, 0)
		}},
		{"batch", unix.SCHED_BATCH, func() error {
			var param int32
			_, _, errno := unix.RawSyscall(unix.SYS_SCHED_SETSCHEDULER, 0, unix.SCHED_BATCH, uintptr(unsafe.Pointer(&param)))
			if errno != 0 {
				return errno
			}
			return nil
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runtime.LockOSThread() // never unlocked: the thread ends with the test
			if err := errors.Join(unix.Setpriority(unix.PRIO_PROCESS, 0, 0), tt.set()); err != nil {
				t.Fatal(err)
			}
			child := exec.Command(os.Args[0], "-test.run", "^TestSettleLeavesAlone$")
			child.Env = append(os.Environ(), envAlone+"="+strconv.Itoa(tt.policy))
			if out, err := child.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

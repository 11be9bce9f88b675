// Package threads gives the threads of a Go process their priorities.
//
// The Go runtime has a monitor thread that looks every 20 us, for the first
// millisecond of each busy spell, whether a goroutine is stuck. On a 24Kc at 250
// million instructions a second a look costs more than the 20 us, and as the monitor
// was just asleep it is preferred to whom it watches: an emulated router carried 11.5
// Mbit/s of TCP with it and 30 without. At the lowest priority it looks when there is
// time, which is all that is needed: nothing here computes for long, and where a
// system call blocks the core is idle.
package threads

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	monitorNice = 19
	// workerNice makes packets that are there go before what makes more of them. Much
	// more and each packet that a local program sends is carried alone, which costs
	// a third of the speed.
	workerNice = -3

	resetOnFork = 0x40000000 // SCHED_RESET_ON_FORK, sched(7)
)

var (
	mu      sync.Mutex
	monitor int          // thread ID; 0: Settle was not called, or could not do it
	base    int          // nice value that we were started with
	known   atomic.Int32 // threads that have their priorities
)

// Settle sets the priorities. It is called once, early: which thread is the monitor
// is told by its ID, as it is the first that the runtime makes. A nice value or a
// scheduling policy that we were started with is kept. Without the right to raise a
// priority nothing is done: what the monitor makes would stay as low as the monitor.
func Settle() {
	mu.Lock()
	defer mu.Unlock()
	main := os.Getpid()
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, main)
	policy, _, errno := unix.RawSyscall(unix.SYS_SCHED_GETSCHEDULER, 0, 0, 0)
	if err != nil || errno != 0 || policy != unix.SCHED_NORMAL {
		return
	}
	base = 20 - raw // the system call's own form
	ids := list()
	// In another namespace than that of /proc we have another ID.
	if len(ids) < 2 || !slices.Contains(ids, main) {
		return
	}
	if unix.Setpriority(unix.PRIO_PROCESS, main, base-1) != nil {
		return
	}
	monitor = first(ids, main, maxID())
	settle(ids)
}

// Check gives new threads their priorities: one that the monitor made has the
// monitor's. It costs next to nothing when there is no new one.
func Check() {
	n, _ := runtime.ThreadCreateProfile(nil)
	if int32(n) == known.Load() {
		return
	}
	mu.Lock()
	defer mu.Unlock()
	if monitor != 0 && int32(n) != known.Load() {
		settle(list())
	}
}

// settle is called with mu held.
func settle(ids []int) {
	// First, so that a thread that is made meanwhile is noticed by the next Check.
	n, _ := runtime.ThreadCreateProfile(nil)
	known.Store(int32(n))
	worker := base
	if base == 0 {
		worker = workerNice
	}
	for _, id := range ids {
		nice := worker
		if id == monitor {
			nice = max(base, monitorNice)
		}
		if unix.Setpriority(unix.PRIO_PROCESS, id, nice) != nil && id != monitor {
			unix.Setpriority(unix.PRIO_PROCESS, id, base)
		}
		if nice < 0 {
			// Programs that we start are not preferred.
			var param int32
			unix.RawSyscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(id), unix.SCHED_NORMAL|resetOnFork, uintptr(unsafe.Pointer(&param)))
		}
	}
}

// list returns the IDs of our threads; none if they cannot be read.
func list() (ids []int) {
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if id, err := strconv.Atoi(e.Name()); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// maxID returns where thread IDs start anew.
func maxID() int {
	b, err := os.ReadFile("/proc/sys/kernel/pid_max")
	if err == nil {
		if n, err := strconv.Atoi(string(b[:max(len(b)-1, 0)])); err == nil && n > 0 {
			return n
		}
	}
	return 1 << 15
}

// first returns the ID that was given out first after main.
func first(ids []int, main, limit int) int {
	best, age := 0, limit
	for _, id := range ids {
		if d := ((id-main)%limit + limit) % limit; d != 0 && d < age {
			best, age = id, d
		}
	}
	return best
}

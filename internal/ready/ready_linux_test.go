package ready

import (
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A waiter wakes for what comes in, and not for what went out.
func TestWaiter(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[1])
	f := File(pair[0], "ours")
	defer f.Close()
	w, err := NewWaiter(pair[0])
	if err != nil {
		t.Fatal(err)
	}
	var calls, got atomic.Int32
	end := make(chan error, 1)
	buf := make([]byte, 10)
	go func() {
		end <- w.Wait(func() bool {
			calls.Add(1)
			for {
				if n, err := unix.Read(pair[0], buf); n <= 0 || err != nil {
					if err != unix.EAGAIN {
						t.Errorf("read: %d, %v: the descriptor should not block", n, err)
					}
					return false
				}
				got.Add(1)
			}
		})
	}()
	until := func(what string, ok func() bool) {
		t.Helper()
		for begin := time.Now(); !ok(); time.Sleep(time.Millisecond) {
			if time.Since(begin) > 10*time.Second {
				t.Fatalf("waiting for %s: %d calls, %d datagrams", what, calls.Load(), got.Load())
			}
		}
	}
	until("the first call", func() bool { return calls.Load() == 1 })
	for i := range 100 {
		if _, err := unix.Write(pair[0], []byte("out")); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.Read(pair[1], make([]byte, 10)); err != nil { // it is writable again
			t.Fatal(err)
		}
		if i%10 == 9 {
			if _, err := unix.Write(pair[1], []byte("in")); err != nil {
				t.Fatal(err)
			}
			until("a datagram", func() bool { return got.Load() == int32(i/10+1) })
		}
	}
	if n := calls.Load(); n > 1+10 {
		t.Errorf("woken %d times for 10 datagrams", n-1)
	}
	w.Close()
	if err := <-end; err == nil {
		t.Error("Wait was not ended by Close")
	}
	if err := w.Wait(func() bool { t.Error("called after Close"); return true }); err == nil {
		t.Error("Wait was not ended by Close")
	}
}

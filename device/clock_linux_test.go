package device

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wgd/internal/seccomp"
)

func TestBootClock(t *testing.T) {
	c, err := newBootClock()
	if err != nil {
		t.Fatal(err)
	}
	testBootClock(t, c, unix.CLOCK_BOOTTIME)
}

func TestBootClockOldKernel(t *testing.T) {
	for _, kernel := range []struct {
		name  string
		lacks []seccomp.Rule
		clock int32
	}{
		{"no timerfd on CLOCK_BOOTTIME", []seccomp.Rule{"timerfd_create:7=EINVAL"}, unix.CLOCK_BOOTTIME},
		{"no CLOCK_BOOTTIME", []seccomp.Rule{"timerfd_create:7=EINVAL", "clock_gettime:7=EINVAL"}, unix.CLOCK_MONOTONIC},
	} {
		t.Run(kernel.name, func(t *testing.T) {
			var c *bootClock
			var err error
			if e := seccomp.Do(kernel.lacks, func() { c, err = newBootClock() }); e != nil {
				t.Fatal(e)
			}
			if err != nil {
				t.Fatal(err)
			}
			testBootClock(t, c, kernel.clock)
		})
	}
}

// testBootClock expects c to tell the time of a system clock, and closes it.
func testBootClock(t *testing.T, c *bootClock, id int32) {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		t.Fatal(err)
	}
	if now := time.Duration(c.Now()); now < time.Duration(ts.Nano()) || now > time.Duration(ts.Nano())+time.Minute {
		t.Errorf("now is %v, clock %d is at %v", now, id, time.Duration(ts.Nano()))
	}

	woken := make(chan bool)
	go func() {
		for {
			ok := c.Wait()
			woken <- ok
			if !ok {
				return
			}
		}
	}()
	await := func(what string, want bool) {
		t.Helper()
		select {
		case ok := <-woken:
			if ok != want {
				t.Fatalf("%s: Wait returned %v", what, ok)
			}
		case <-time.After(patience):
			t.Fatalf("%s: Wait does not return", what)
		}
	}
	at := after(c.Now(), 20*time.Millisecond)
	c.Set(at)
	await("in 20 ms", true)
	if early := at - c.Now(); early > 0 {
		t.Errorf("%v too early", time.Duration(early))
	}
	c.Set(after(c.Now(), -time.Second))
	await("in the past", true)
	c.Set(after(c.Now(), time.Hour))
	c.Set(after(c.Now(), time.Millisecond))
	await("sooner than before", true)
	c.Set(after(c.Now(), 5*time.Millisecond))
	c.Set(0)
	select {
	case <-woken:
		t.Error("woken by an alarm that was taken back")
	case <-time.After(20 * time.Millisecond):
	}
	c.Close()
	await("closed", false)
	c.Set(after(c.Now(), time.Millisecond)) // no harm
}

package device

import (
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"wgd/noise"
)

// A clock tells the time and wakes the timer loop. Tests hand in their own.
type clock interface {
	// Now returns the instant on CLOCK_BOOTTIME: session ages go on in suspend.
	Now() noise.Instant
	Wall() time.Time
	// Set makes Wait return at the instant; 0: not before the next Set. Any
	// goroutine may call it.
	Set(at deadline)
	// Wait parks until the instant that was set; false: the clock was closed.
	Wait() bool
	Close()
}

// bootClock wakes by a timerfd: Go's own timers stand still in suspend.
type bootClock struct {
	clockID int32
	fd      int
	file    *os.File // owns fd and parks on the netpoller
	// The timerfd is not of clockID: it stands still in suspend.
	lagging bool
}

// maxLag is the longest sleep of a lagging clock, so that after a suspend it is late by
// no more. What depends on an age is checked for each packet anyway.
const maxLag = time.Minute

// newBootClock does with what there is: no timerfd knows CLOCK_BOOTTIME before Linux
// 3.15, and nothing before 2.6.39.
func newBootClock() (*bootClock, error) {
	c := &bootClock{clockID: unix.CLOCK_BOOTTIME}
	var ts unix.Timespec
	if unix.ClockGettime(c.clockID, &ts) != nil {
		c.clockID = unix.CLOCK_MONOTONIC
	}
	const flags = unix.TFD_NONBLOCK | unix.TFD_CLOEXEC
	var err error
	if c.fd, err = unix.TimerfdCreate(int(c.clockID), flags); err == unix.EINVAL {
		c.lagging = true
		c.fd, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, flags)
	}
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	c.file = os.NewFile(uintptr(c.fd), "timerfd")
	return c, nil
}

func (c *bootClock) Now() noise.Instant {
	var ts unix.Timespec
	// Raw: any other system call wakes the monitor of the Go runtime, see package
	// threads. It cannot fail: newBootClock has seen that the clock exists.
	unix.RawSyscall(unix.SYS_CLOCK_GETTIME, uintptr(c.clockID), uintptr(unsafe.Pointer(&ts)), 0)
	return noise.Instant(ts.Nano())
}

func (c *bootClock) Wall() time.Time { return time.Now() }

func (c *bootClock) Set(at deadline) {
	raw, err := c.file.SyscallConn()
	if err != nil {
		return // closed
	}
	flags := unix.TFD_TIMER_ABSTIME
	if c.lagging && at != 0 {
		flags = 0
		at = min(max(at-c.Now(), 1), noise.Instant(maxLag)) // 0 would disarm it
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(at))}
	raw.Control(func(fd uintptr) {
		// It can only fail on arguments that are wrong.
		unix.TimerfdSettime(int(fd), flags, &spec, nil)
	})
}

func (c *bootClock) Wait() bool {
	var expirations [8]byte
	_, err := c.file.Read(expirations[:])
	return err == nil
}

func (c *bootClock) Close() { c.file.Close() }

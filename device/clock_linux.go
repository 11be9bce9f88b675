package device

import (
	"os"
	"time"

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
	clockID int
	fd      int
	file    *os.File // owns fd and parks on the netpoller
}

// newBootClock falls back to CLOCK_MONOTONIC on kernels that have no timerfd on
// CLOCK_BOOTTIME (before 3.15).
func newBootClock() (*bootClock, error) {
	for _, id := range []int{unix.CLOCK_BOOTTIME, unix.CLOCK_MONOTONIC} {
		fd, err := unix.TimerfdCreate(id, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
		if err == unix.EINVAL && id == unix.CLOCK_BOOTTIME {
			continue
		}
		if err != nil {
			return nil, os.NewSyscallError("timerfd_create", err)
		}
		return &bootClock{clockID: id, fd: fd, file: os.NewFile(uintptr(fd), "timerfd")}, nil
	}
	panic("unreachable")
}

func (c *bootClock) Now() noise.Instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(c.clockID), &ts); err != nil {
		panic(err) // newBootClock has seen that the clock exists
	}
	return noise.Instant(ts.Nano())
}

func (c *bootClock) Wall() time.Time { return time.Now() }

func (c *bootClock) Set(at deadline) {
	raw, err := c.file.SyscallConn()
	if err != nil {
		return // closed
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(at))}
	raw.Control(func(fd uintptr) {
		// It can only fail on arguments that are wrong.
		unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, &spec, nil)
	})
}

func (c *bootClock) Wait() bool {
	var expirations [8]byte
	_, err := c.file.Read(expirations[:])
	return err == nil
}

func (c *bootClock) Close() { c.file.Close() }

package device

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// A crew lets idle cores share the cryptography of one burst. Whoever runs it works
// too, takes what nobody else has taken, and waits only for messages that a helper
// has begun: when all cores are busy no helper comes in time, and nothing is lost but
// the call for it. The order of messages is not touched.
//
// The zero value has no helpers.
type crew struct {
	do   func(i int) // for one message; set before start
	call chan struct{}

	next atomic.Int32 // the first message that nobody has taken
	n    int          // messages of the burst; changed while nobody is at work

	vain int // bursts in a row for which nobody came
	rest int // bursts for which nobody is called

	mu     sync.Mutex
	done   sync.Cond // the last helper has left
	open   bool      // helpers may come in
	inside int       // helpers at work
	came   bool      // one was, in this burst
}

const (
	// crewSlice is how many messages are taken at a time: enough to be worth the
	// bus, few enough that nobody waits long for the last.
	crewSlice = 4
	// maxHelpers: a burst has 64 messages at most, and other things need cores, too.
	maxHelpers = 3
	// After so many bursts without help the cores are taken for busy, for so long.
	crewVain, crewRest = 8, 256
)

// crewSize returns the helpers of each direction. The two directions and the kernel
// keep two cores busy by themselves.
func crewSize() int { return min(max(runtime.GOMAXPROCS(0)-2, 0), maxHelpers) }

func (c *crew) init(helpers int, do func(int)) {
	c.do = do
	c.done.L = &c.mu
	if helpers > 0 {
		c.call = make(chan struct{}, helpers)
	}
}

// run calls do for 0 to n-1, at the same time on several cores if they are idle, and
// returns when all have returned.
func (c *crew) run(n int) {
	if c.call == nil || n < 2*crewSlice {
		for i := range n {
			c.do(i)
		}
		return
	}
	c.n = n
	c.next.Store(0)
	called := c.rest == 0
	if !called {
		c.rest--
	} else {
		c.mu.Lock()
		c.open, c.came = true, false
		c.mu.Unlock()
		for range min(cap(c.call), n/crewSlice-1) {
			select {
			case c.call <- struct{}{}:
			default: // enough are on their way
			}
		}
	}
	c.work()
	if !called {
		return
	}
	c.mu.Lock()
	c.open = false
	for c.inside > 0 {
		c.done.Wait()
	}
	came := c.came
	c.mu.Unlock()
	if c.vain++; came {
		c.vain = 0
	}
	if c.vain == crewVain {
		c.vain, c.rest = 0, crewRest
	}
}

func (c *crew) work() {
	for {
		last := int(c.next.Add(crewSlice))
		for i := last - crewSlice; i < min(last, c.n); i++ {
			c.do(i)
		}
		if last >= c.n {
			return
		}
	}
}

// help is a helper's life, until the device is closed.
func (c *crew) help(closed <-chan struct{}) {
	for {
		select {
		case <-c.call:
		case <-closed:
			return
		}
		c.mu.Lock()
		if !c.open {
			c.mu.Unlock()
			continue
		}
		c.inside++
		c.came = c.came || int(c.next.Load()) < c.n
		c.mu.Unlock()
		c.work()
		c.mu.Lock()
		if c.inside--; c.inside == 0 {
			c.done.Signal()
		}
		c.mu.Unlock()
	}
}

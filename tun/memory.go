package tun

import (
	"slices"
	"sync"
	"syscall"
)

// Memory is a Device without a system behind it. It parks on channels only, so
// that it works inside a testing/synctest bubble.
type Memory struct {
	in      chan []byte
	out     chan []byte
	states  chan State
	pending []byte // owned by Drain: taken from in, not yet read

	mu    sync.Mutex
	state State // guarded by mu

	closed, removed       chan struct{}
	closeOnce, removeOnce sync.Once
}

// Queued packets in each direction, and state changes, that a Memory holds.
const memoryQueue = 1024

// NewMemory returns an interface that is down.
func NewMemory(name string, mtu int) *Memory {
	m := &Memory{
		in:      make(chan []byte, memoryQueue),
		out:     make(chan []byte, memoryQueue),
		states:  make(chan State, memoryQueue),
		closed:  make(chan struct{}),
		removed: make(chan struct{}),
		state:   State{Name: name, Index: 1, MTU: mtu},
	}
	m.states <- m.state
	return m
}

// Inject sends a copy of packet into the tunnel, as the system would. It waits
// while the queue is full and, like the system, drops the packet while the
// interface is down.
func (m *Memory) Inject(packet []byte) {
	if !m.current().Up {
		return
	}
	select {
	case m.in <- slices.Clone(packet):
	case <-m.closed:
	case <-m.removed:
	}
}

// Captured receives what the device wrote, in order. When nobody receives, the
// newest packets are dropped.
func (m *Memory) Captured() <-chan []byte { return m.out }

// SetUp, SetMTU and SetName change the interface as an administrator would.
func (m *Memory) SetUp(up bool)       { m.change(func(s *State) { s.Up = up }) }
func (m *Memory) SetMTU(mtu int)      { m.change(func(s *State) { s.MTU = mtu }) }
func (m *Memory) SetName(name string) { m.change(func(s *State) { s.Name = name }) }

// Remove deletes the interface under the device.
func (m *Memory) Remove() { m.removeOnce.Do(func() { close(m.removed) }) }

func (m *Memory) change(f func(*State)) {
	m.mu.Lock()
	before := m.state
	f(&m.state)
	s := m.state
	m.mu.Unlock()
	if s == before {
		return
	}
	select {
	case m.states <- s:
	case <-m.closed:
	}
}

func (m *Memory) current() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

func (m *Memory) Drain(f func() bool) error {
	for {
		// Queued packets must not win over Close or Remove.
		select {
		case <-m.closed:
			return nil
		case <-m.removed:
			return ErrRemoved
		default:
		}
		if m.pending == nil {
			select {
			case m.pending = <-m.in:
			case <-m.closed:
				return nil
			case <-m.removed:
				return ErrRemoved
			}
		}
		if !f() {
			return nil
		}
	}
}

// Poll does nothing: the Go scheduler sees a channel at once.
func (m *Memory) Poll(func()) {}

func (m *Memory) TryRead(s *Super) (bool, error) {
	p := m.pending
	if p == nil {
		select {
		case p = <-m.in:
		default:
			return false, nil
		}
	}
	m.pending = nil
	s.Set(p)
	return true, nil
}

func (m *Memory) Gather(buf []byte) error { return m.Write(buf) }
func (m *Memory) Flush() error            { return nil }

func (m *Memory) Write(buf []byte) error {
	select {
	case <-m.closed:
		return syscall.EBADF
	case <-m.removed:
		return ErrRemoved
	default:
	}
	if !m.current().Up {
		return syscall.EIO
	}
	select {
	case m.out <- slices.Clone(buf[Headroom:]):
	default:
	}
	return nil
}

func (m *Memory) Name() string { return m.current().Name }
func (m *Memory) MTU() int     { return m.current().MTU }

func (m *Memory) Watch(f func(State)) error {
	for {
		select {
		case <-m.closed:
			return nil
		case <-m.removed:
			return ErrRemoved
		case s := <-m.states:
			f(s)
		}
	}
}

func (m *Memory) Close() error {
	m.closeOnce.Do(func() { close(m.closed) })
	return nil
}

package tun

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

var (
	_ Device = (*Memory)(nil)
	_ Device = (*Kernel)(nil)
)

func TestMemoryInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory("mem0", 1420)
		var states []State
		watchEnd := make(chan error, 1)
		go func() { watchEnd <- m.Watch(func(s State) { states = append(states, s) }) }()

		var read []string
		drainEnd := make(chan error, 1)
		s := NewSuper()
		go func() {
			drainEnd <- m.Drain(func() bool {
				for {
					ok, err := m.TryRead(s)
					if !ok || err != nil {
						return err == nil
					}
					read = append(read, string(s.Next()))
				}
			})
		}()

		m.Inject([]byte("dropped: the interface is down"))
		if err := m.Write(withHeadroom([]byte("x"))); !errors.Is(err, syscall.EIO) {
			t.Errorf("write while down: %v, want EIO", err)
		}
		m.SetUp(true)
		m.SetUp(true)
		m.SetMTU(1380)
		m.SetName("mem1")
		time.Sleep(time.Hour) // parked goroutines let the bubble's clock jump
		m.Inject([]byte("a"))
		m.Inject([]byte("b"))
		synctest.Wait()
		if fmt.Sprint(read) != "[a b]" {
			t.Errorf("read %q", read)
		}
		if want := []State{{"mem0", 1, 1420, false}, {"mem0", 1, 1420, true}, {"mem0", 1, 1380, true}, {"mem1", 1, 1380, true}}; fmt.Sprint(states) != fmt.Sprint(want) {
			t.Errorf("states\n got %v\nwant %v", states, want)
		}
		if err := m.Write(withHeadroom([]byte("c"))); err != nil {
			t.Error(err)
		}
		if got := <-m.Captured(); string(got) != "c" {
			t.Errorf("captured %q", got)
		}
		m.Close()
		m.Close()
		if err := <-watchEnd; err != nil {
			t.Errorf("Watch: %v", err)
		}
		if err := <-drainEnd; err != nil {
			t.Errorf("Drain: %v", err)
		}
	})
}

func TestMemoryKeepsABatchThatWasCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory("mem0", 1420)
		m.SetUp(true)
		for _, p := range []string{"a", "b", "c"} {
			m.Inject([]byte(p))
		}
		var read []string
		err := m.Drain(func() bool { // one packet a batch
			s := NewSuper()
			m.TryRead(s)
			read = append(read, string(s.Next()))
			return len(read) < 3
		})
		if err != nil || fmt.Sprint(read) != "[a b c]" {
			t.Errorf("read %q, %v", read, err)
		}
	})
}

func TestMemoryRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory("mem0", 1420)
		end := make(chan error, 2)
		go func() { end <- m.Watch(func(State) {}) }()
		go func() { end <- m.Drain(func() bool { return true }) }()
		synctest.Wait()
		m.Remove()
		for range 2 {
			if err := <-end; err != ErrRemoved {
				t.Errorf("got %v, want %v", err, ErrRemoved)
			}
		}
	})
}

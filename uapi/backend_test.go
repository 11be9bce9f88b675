package uapi

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"wgd/conf"
)

// A fakeDevice applies updates to a state, as a device without packets would.
type fakeDevice struct {
	mu      sync.Mutex
	state   conf.State
	updates int         // applied
	last    conf.Update // shallow: its secrets are wiped after Configure
	fail    error       // returned by Configure, which then does nothing
	gate    chan struct{}
}

func (d *fakeDevice) Configure(u *conf.Update) error {
	if d.gate != nil {
		<-d.gate
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail != nil {
		return d.fail
	}
	d.updates++
	d.last = *u
	s := &d.state
	if u.PrivateKey != nil {
		s.PrivateKey = *u.PrivateKey
	}
	if u.ListenPort != nil {
		s.ListenPort = *u.ListenPort
	}
	if u.FirewallMark != nil {
		s.FirewallMark = *u.FirewallMark
	}
	if u.ReplacePeers {
		s.Peers = nil
	}
	index := make(map[conf.Key]int)
	for i := range s.Peers {
		index[s.Peers[i].PublicKey] = i
	}
	for i := range u.Peers {
		p := &u.Peers[i]
		at, known := index[p.PublicKey]
		switch {
		case p.Remove:
			if known {
				s.Peers = slices.Delete(s.Peers, at, at+1)
				clear(index)
				for i := range s.Peers {
					index[s.Peers[i].PublicKey] = i
				}
			}
			continue
		case !known && p.UpdateOnly:
			continue
		case !known:
			at = len(s.Peers)
			index[p.PublicKey] = at
			s.Peers = append(s.Peers, conf.PeerState{PublicKey: p.PublicKey})
		}
		q := &s.Peers[at]
		if p.PresharedKey != nil {
			q.PresharedKey = *p.PresharedKey
		}
		if p.Endpoint != nil {
			q.Endpoint = *p.Endpoint
		}
		if p.PersistentKeepalive != nil {
			q.PersistentKeepalive = *p.PersistentKeepalive
		}
		if p.ReplaceAllowedIPs {
			q.AllowedIPs = nil
		}
		for _, a := range p.AllowedIPs {
			if a.Remove {
				q.AllowedIPs = slices.DeleteFunc(q.AllowedIPs, func(x netip.Prefix) bool { return x == a.Prefix })
				continue
			}
			if len(s.Peers) <= 100 { // quadratic
				for j := range s.Peers {
					s.Peers[j].AllowedIPs = slices.DeleteFunc(s.Peers[j].AllowedIPs, func(x netip.Prefix) bool { return x == a.Prefix })
				}
			}
			q.AllowedIPs = append(q.AllowedIPs, a.Prefix)
		}
	}
	return nil
}

func (d *fakeDevice) State() *conf.State {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.state
	s.Peers = slices.Clone(s.Peers)
	for i := range s.Peers {
		s.Peers[i].AllowedIPs = slices.Clone(s.Peers[i].AllowedIPs)
	}
	return &s
}

func (d *fakeDevice) failWith(err error) {
	d.mu.Lock()
	d.fail = err
	d.mu.Unlock()
}

func (d *fakeDevice) applied() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.updates
}

// startServer serves d on a socket in a directory of the test, until the test
// ends. It returns its path.
func startServer(t testing.TB, d *fakeDevice) string {
	t.Helper()
	useDir(t)
	l, err := Listen("t0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l, &Server{Backend: d})
	return l.Path()
}

func useDir(t testing.TB) {
	t.Helper()
	old := socketDir
	socketDir = t.TempDir()
	t.Cleanup(func() { socketDir = old })
}

func serve(t testing.TB, l net.Listener, s *Server) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		l.Close()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("Serve did not end")
		}
	})
}

func dial(t testing.TB, path string) *net.UnixConn {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c.(*net.UnixConn)
}

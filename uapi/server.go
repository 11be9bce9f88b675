// Package uapi speaks the cross-platform configuration protocol of userspace
// WireGuard (https://www.wireguard.com/xplatform/): the server in the daemon,
// and the client that wg(8) is.
//
// Where the description leaves room:
//   - A set is a transaction. It is read whole, up to its empty line, and given to
//     the Backend as one update. If a line is wrong, or the client is gone before
//     the empty line, nothing is applied.
//   - Flags take the value true only; replace_peers=false and the like are EINVAL.
//   - Lines of a peer act in order: replace_allowed_ips undoes the allowed_ip lines
//     above it. Of other lines given twice the last counts.
//   - A line without '=' is EPROTO, every other wrong line EINVAL. The reply comes
//     after the empty line, and the next operation is served.
//   - Empty lines between operations are skipped.
package uapi

import (
	"errors"
	"net"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"wgd/conf"
)

const (
	maxClients = 32
	// A client must go on with an operation that it has begun, or read its reply,
	// within this time. Between operations it may be silent for ever.
	clientTimeout = 10 * time.Second
	// A client that waits for a place takes that of one which has been silent for
	// this long, not of one whose request may be on its way.
	evictAfter = time.Second

	// An operation of more bytes than this gives its memory back to the system.
	largeOperation = 256 << 10
)

// A Backend is what a server configures. Its methods are called by many
// goroutines at once.
type Backend interface {
	// Configure applies u whole or not at all. It must not keep u or what u points
	// to, which is wiped afterwards. If the error wraps a syscall.Errno, that is the
	// reply, else EIO.
	Configure(u *conf.Update) error
	// State is a snapshot that the caller may keep, and wipes.
	State() *conf.State
}

// A Server serves clients of the protocol.
type Server struct {
	Backend Backend
	Log     func(error) // if not nil, called with the reason of each refused operation

	// MaxOperation bounds the text of one operation, in bytes; 0: 16 MiB. 24,000 peers
	// with preshared key, endpoint and two allowed IPs are 7 MiB. The update made of
	// it takes some five times that at worst, while it grows.
	MaxOperation int

	mu      sync.Mutex
	changed sync.Cond // a client has gone or waits; mu is held
	clients map[*client]struct{}
}

// Serve is a Server without a log.
func Serve(l net.Listener, b Backend) error { return (&Server{Backend: b}).Serve(l) }

// Serve serves the clients of l until l is closed; then it closes its clients,
// waits for what they are doing, and returns nil. At most maxClients are
// connected: one more takes the place of the client that has been silent for
// longest, and at least evictAfter.
func (s *Server) Serve(l net.Listener) error {
	if s.MaxOperation == 0 {
		s.MaxOperation = 16 << 20
	}
	s.changed.L = &s.mu
	s.clients = make(map[*client]struct{})
	var running sync.WaitGroup
	defer running.Wait()
	defer s.closeAll()
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			if !isTemporary(err) {
				return err
			}
			time.Sleep(100 * time.Millisecond)
			continue
		}
		c := s.add(conn)
		running.Go(func() {
			c.serve()
			s.remove(c)
		})
	}
}

// isTemporary tells whether accept may succeed later: a client that gave up, or
// too few resources.
func isTemporary(err error) bool {
	for _, e := range []syscall.Errno{syscall.ECONNABORTED, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// add makes room for a client and returns it.
func (s *Server) add(conn net.Conn) *client {
	c := &client{conn: conn, server: s, waiting: true, since: time.Now()}
	c.lines.r, c.lines.limit = c, s.MaxOperation
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.clients) >= maxClients {
		if wait := s.evict(); wait > 0 {
			time.AfterFunc(wait, func() {
				s.mu.Lock()
				s.changed.Signal()
				s.mu.Unlock()
			})
		}
		s.changed.Wait()
	}
	s.clients[c] = struct{}{}
	return c
}

// evict closes the client for which we have been waiting longest, unless that
// has been done already. Clients that we are working for are spared. If it has not
// waited long enough, evict returns when to try again. s.mu is held.
func (s *Server) evict() (wait time.Duration) {
	var oldest *client
	for c := range s.clients {
		if c.evicted {
			return 0
		}
		if c.waiting && (oldest == nil || c.since.Before(oldest.since)) {
			oldest = c
		}
	}
	if oldest == nil {
		return 0 // the next to wait says so
	}
	if wait = evictAfter - time.Since(oldest.since); wait <= 0 {
		oldest.evicted = true
		oldest.conn.Close()
	}
	return wait
}

func (s *Server) remove(c *client) {
	c.conn.Close()
	s.mu.Lock()
	delete(s.clients, c)
	s.changed.Signal()
	s.mu.Unlock()
}

func (s *Server) closeAll() {
	s.mu.Lock()
	for c := range s.clients {
		c.conn.Close()
	}
	s.mu.Unlock()
}

// A client is one connection. Its goroutine alone uses conn, lines and begun.
type client struct {
	conn   net.Conn
	server *Server
	lines  lineReader // reads through the client's Read
	begun  bool       // an operation has begun

	// Guarded by server.mu.
	waiting bool      // for the client to write or read
	since   time.Time // when we began to wait
	evicted bool      // its connection has been closed to make room
}

// wait notes whether we wait for the client.
func (c *client) wait(waiting bool) {
	s := c.server
	s.mu.Lock()
	c.waiting, c.since = waiting, time.Now()
	if waiting && len(s.clients) >= maxClients {
		s.changed.Signal()
	}
	s.mu.Unlock()
}

// Read and Write are those of the connection, with the client's deadline.
func (c *client) Read(p []byte) (int, error) {
	var deadline time.Time
	if c.begun || c.lines.buffered() {
		deadline = time.Now().Add(clientTimeout)
	}
	if err := c.conn.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	c.wait(true)
	defer c.wait(false)
	return c.conn.Read(p)
}

func (c *client) Write(p []byte) (int, error) {
	if err := c.conn.SetWriteDeadline(time.Now().Add(clientTimeout)); err != nil {
		return 0, err
	}
	c.wait(true)
	defer c.wait(false)
	return c.conn.Write(p)
}

// serve answers the client's operations in order, until it goes or breaks off.
func (c *client) serve() {
	defer c.lines.wipe()
	for {
		c.begun = false
		line, err := c.lines.next()
		if err == nil && len(line) == 0 {
			continue
		}
		if err != nil && err != errLongLine {
			return
		}
		c.begun = true
		op := "?"
		if err == nil && (string(line) == "set=1" || string(line) == "get=1") {
			op = string(line)
		}
		clear(line)
		good := c.operation(op)
		if c.lines.total > largeOperation {
			// What it took is garbage by now: a router has no megabytes to spare.
			debug.FreeOSMemory()
		}
		c.lines.total = 0
		if !good {
			return
		}
	}
}

// operation serves the operation that op begins, and tells whether the
// connection is still good.
func (c *client) operation(op string) bool {
	s := c.server
	out := newPrinter(c)
	var refused, broken error
	switch op {
	case "set=1":
		var u *conf.Update
		if u, refused, broken = parseUpdate(&c.lines); u != nil {
			refused = s.Backend.Configure(u)
			u.Wipe()
		}
	case "get=1":
		refused, broken = readOperation(&c.lines, func([]byte) *Error {
			return &Error{What: "get takes no lines", Errno: syscall.EINVAL}
		})
		if refused == nil && broken == nil {
			state := s.Backend.State()
			out.state(state)
			state.Wipe()
		}
	default:
		_, broken = readOperation(&c.lines, func([]byte) *Error { return nil })
		refused = &Error{Line: 1, What: "unknown operation (expected get=1 or set=1)", Errno: syscall.EINVAL}
	}
	if broken != nil && broken != errTooLarge {
		return false
	}
	errno := syscall.Errno(0)
	if refused != nil {
		if !errors.As(refused, &errno) {
			errno = syscall.EIO
		}
		if s.Log != nil {
			s.Log(refused)
		}
	}
	out.errno(-int(errno))
	return out.err == nil && broken == nil
}

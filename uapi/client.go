package uapi

import (
	"bytes"
	"io"
	"net"
	"syscall"

	"wgd/conf"
)

// A Client configures one interface. It is for one goroutine.
type Client struct {
	conn  net.Conn
	lines lineReader
}

// Dial connects to the daemon of an interface.
func Dial(ifname string) (*Client, error) {
	conn, err := connect(ifname)
	if err != nil {
		return nil, err
	}
	return NewClient(conn), nil
}

// NewClient speaks to the server at the other end of conn.
func NewClient(conn net.Conn) *Client {
	c := &Client{conn: conn}
	c.lines.r = conn
	return c
}

// Set applies u. The daemon's refusal is a syscall.Errno.
func (c *Client) Set(u *conf.Update) error {
	out := newPrinter(c.conn)
	out.update(u)
	// If the daemon has hung up on us, it may have said why.
	err := c.reply()
	if out.err != nil && (err == nil || err == io.EOF) {
		err = out.err
	}
	return err
}

// reply reads errno=N and an empty line.
func (c *Client) reply() error {
	line, err := c.lines.next()
	if err != nil {
		return err
	}
	value, ok := bytes.CutPrefix(line, []byte("errno="))
	value, _ = bytes.CutPrefix(value, []byte{'-'})
	n, isNumber := parseUint(value, 1<<31-1)
	if !ok || !isNumber {
		return &Error{Key: "errno", What: "missing in the reply", Errno: syscall.EPROTO}
	}
	if line, err = c.lines.next(); err != nil {
		return err
	}
	if len(line) != 0 {
		return &Error{What: "reply goes on behind errno", Errno: syscall.EPROTO}
	}
	if n != 0 {
		return syscall.Errno(n)
	}
	return nil
}

// Get reads the state. The caller may Wipe it.
func (c *Client) Get() (*conf.State, error) {
	if _, err := io.WriteString(c.conn, "get=1\n\n"); err != nil {
		return nil, err
	}
	return parseState(&c.lines)
}

// Close ends the connection.
func (c *Client) Close() error {
	c.lines.wipe()
	return c.conn.Close()
}

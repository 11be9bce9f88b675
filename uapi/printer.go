package uapi

import (
	"encoding/hex"
	"io"
	"net/netip"
	"strconv"

	"wgd/conf"
)

// A printer writes key=value lines to w through a buffer, which it clears after
// each write, for keys pass through it. After the first error it writes nothing
// more.
type printer struct {
	w   io.Writer
	buf []byte
	err error
}

func newPrinter(w io.Writer) *printer { return &printer{w: w, buf: make([]byte, 0, bufferSize)} }

// begin makes room for a line and starts it. The longest value is an endpoint
// whose zone is an interface name, some 70 bytes.
func (p *printer) begin(key string) {
	if cap(p.buf)-len(p.buf) < 256 {
		p.flush()
	}
	p.buf = append(append(p.buf, key...), '=')
}

func (p *printer) end() { p.buf = append(p.buf, '\n') }

func (p *printer) text(key, value string) {
	p.begin(key)
	p.buf = append(p.buf, value...)
	p.end()
}

func (p *printer) flag(key string, set bool) {
	if set {
		p.text(key, "true")
	}
}

func (p *printer) number(key string, n uint64) {
	p.begin(key)
	p.buf = strconv.AppendUint(p.buf, n, 10)
	p.end()
}

func (p *printer) key(key string, k *conf.Key) {
	p.begin(key)
	p.buf = hex.AppendEncode(p.buf, k[:])
	p.end()
}

func (p *printer) endpoint(key string, e netip.AddrPort) {
	p.begin(key)
	p.buf = e.AppendTo(p.buf)
	p.end()
}

func (p *printer) allowedIP(a conf.AllowedIP) {
	p.begin("allowed_ip")
	if a.Remove {
		p.buf = append(p.buf, '-')
	}
	p.buf = a.Prefix.AppendTo(p.buf)
	p.end()
}

// errno ends a reply: code is 0 or a negative errno.
func (p *printer) errno(code int) {
	p.begin("errno")
	p.buf = strconv.AppendInt(p.buf, int64(code), 10)
	p.end()
	p.close()
}

// close ends an operation or reply by its empty line and writes what is buffered.
func (p *printer) close() {
	p.end()
	p.flush()
}

func (p *printer) flush() {
	if p.err == nil {
		_, p.err = p.w.Write(p.buf)
	}
	clear(p.buf)
	p.buf = p.buf[:0]
}

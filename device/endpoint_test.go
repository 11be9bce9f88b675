package device

import (
	"errors"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

func TestEndpoint(t *testing.T) {
	for _, tt := range []struct {
		in, out string
		scope   uint32
		is4     bool
	}{
		{"192.0.2.1:51820", "192.0.2.1:51820", 0, true},
		{"[2001:db8::1]:51820", "[2001:db8::1]:51820", 0, false},
		{"[::ffff:192.0.2.1]:51820", "[::ffff:192.0.2.1]:51820", 0, true}, // as wg shows it
		{"[fe80::1%lo]:51820", "[fe80::1%lo]:51820", 1, false},
		{"[fe80::1%1]:51820", "[fe80::1%lo]:51820", 1, false},
		{"[fe80::1%4294967295]:1", "[fe80::1%4294967295]:1", 1<<32 - 1, false}, // an interface that is gone
	} {
		e, err := newEndpoint(netip.MustParseAddrPort(tt.in))
		if err != nil {
			t.Errorf("%s: %v", tt.in, err)
			continue
		}
		if got := e.addrPort().String(); got != tt.out || e.scope != tt.scope || e.is4() != tt.is4 || !e.valid() {
			t.Errorf("%s: got %s, scope %d, is4 %v; want %s, %d, %v", tt.in, got, e.scope, e.is4(), tt.out, tt.scope, tt.is4)
		}
		if e.addr.Addr().Zone() != "" || e.addr.Addr().Is4In6() {
			t.Errorf("%s: %v is not in the form of a received address", tt.in, e.addr)
		}
	}
	for _, in := range []string{"[fe80::1%nosuchif]:1", "[fe80::1%name-longer-than-any-interface]:1"} {
		if _, err := newEndpoint(netip.MustParseAddrPort(in)); !errors.Is(err, unix.ENODEV) {
			t.Errorf("%s: got error %v, want %v", in, err, unix.ENODEV)
		}
	}
	if new(endpoint).valid() {
		t.Error("the zero endpoint is valid")
	}
}

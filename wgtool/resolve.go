package wgtool

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"wgd/conf"
)

// Between two attempts to resolve a name.
const (
	firstDelay = time.Second
	maxDelay   = 20 * time.Second
)

// resolve takes the first address of a name, in the order of RFC 6724. While name servers
// do not answer it tries again, WG_ENDPOINT_RESOLUTION_RETRIES times: at boot there
// is no network yet.
func (t *Tool) resolve(e conf.Endpoint) (netip.AddrPort, error) {
	left, err := retries()
	if err != nil {
		return netip.AddrPort{}, err
	}
	for delay := firstDelay; ; delay = min(delay*6/5, maxDelay) {
		addrs, err := net.DefaultResolver.LookupNetIP(context.Background(), "ip", e.Host)
		if err == nil {
			return netip.AddrPortFrom(addrs[0].Unmap(), e.Port), nil
		}
		var dns *net.DNSError
		if left == 0 || errors.As(err, &dns) && dns.IsNotFound {
			return netip.AddrPort{}, err
		}
		left--
		t.Warn(fmt.Sprintf("%v; again in %v", err, delay))
		time.Sleep(delay)
	}
}

func retries() (uint64, error) {
	text, ok := os.LookupEnv("WG_ENDPOINT_RESOLUTION_RETRIES")
	switch {
	case !ok:
		return 15, nil
	case text == "":
		return 0, nil
	case text == "infinity":
		return math.MaxUint64, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, errors.New("WG_ENDPOINT_RESOLUTION_RETRIES: not a number or infinity")
	}
	return n, nil
}

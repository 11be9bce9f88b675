package conf

import (
	"fmt"
	"testing"
)

func TestParseAllowedIPs(t *testing.T) {
	for _, c := range []struct {
		in     string
		want   string
		change bool
		warns  int
		bad    bool
	}{
		{in: "", want: "[]"},
		{in: " ", want: "[]"},
		{in: "10.0.0.1", want: "[{10.0.0.1/32 false}]"},
		{in: "10.0.0.0/8, fd00::/64", want: "[{10.0.0.0/8 false} {fd00::/64 false}]"},
		{in: "+10.0.0.0/8,-fd00::/64", want: "[{10.0.0.0/8 false} {fd00::/64 true}]", change: true},
		{in: "10.0.0.0/8,-fd00::/64", want: "[{10.0.0.0/8 false} {fd00::/64 true}]", change: true},
		{in: "-10.0.0.1/8", want: "[{10.0.0.0/8 true}]", change: true, warns: 1},
		{in: "10.0.0.0/8,", bad: true},
		{in: "+", bad: true},
		{in: "+-10.0.0.0/8", bad: true},
		{in: "--10.0.0.0/8", bad: true},
		{in: "10.0.0.0/33", bad: true},
	} {
		ips, change, warnings, err := ParseAllowedIPs(c.in)
		if c.bad {
			if err == nil {
				t.Errorf("%q: accepted", c.in)
			}
			continue
		}
		if got := fmt.Sprint(ips); err != nil || got != c.want || change != c.change || len(warnings) != c.warns {
			t.Errorf("%q: got %s, change %v, %q, %v; want %s, change %v, %d warnings", c.in, got, change, warnings, err, c.want, c.change, c.warns)
		}
	}
}

func TestArguments(t *testing.T) {
	for _, c := range []struct {
		what, in, want string // "" is an error
	}{
		{"port", "51820", "51820"}, {"port", "0", "0"}, {"port", "65536", ""}, {"port", "", ""}, {"port", " 5", ""}, {"port", "5\n", ""}, {"port", "domain", ""},
		{"mark", "0xca6c", "51820"}, {"mark", "off", "0"}, {"mark", "0x100000000", ""}, {"mark", "o ff", ""},
		{"keepalive", "off", "0"}, {"keepalive", "65535", "65535"}, {"keepalive", "65536", ""}, {"keepalive", "25s", ""},
		{"endpoint", "[::1]:5", "[::1]:5"}, {"endpoint", "vpn.example.com:5", "vpn.example.com:5"}, {"endpoint", "1.2.3.4", ""}, {"endpoint", "1.2.3.4:5 ", ""},
	} {
		var got any
		var err error
		switch c.what {
		case "port":
			got, err = ParsePort(c.in)
		case "mark":
			got, err = ParseMark(c.in)
		case "keepalive":
			got, err = ParseKeepalive(c.in)
		case "endpoint":
			got, err = ParseEndpoint(c.in)
		}
		if c.want == "" && err == nil || c.want != "" && (err != nil || fmt.Sprint(got) != c.want) {
			t.Errorf("%s %q: got %v, %v; want %q", c.what, c.in, got, err, c.want)
		}
		if _, positioned := err.(*Error); positioned {
			t.Errorf("%s %q: the error has a position: %v", c.what, c.in, err)
		}
	}
}

package wgtool

import (
	"bufio"
	"net/netip"
	"os"
	"sort"
	"strconv"
	"time"

	"wgd/conf"
	"wgd/noise"
	"wgd/uapi"
)

const showUsage Usage = `usage: wg show [INTERFACE|all] [FIELD]
       wg show interfaces
FIELD: public-key, private-key, listen-port, fwmark, peers, preshared-keys, endpoints, allowed-ips,
       latest-handshakes, transfer, persistent-keepalive; dump is all of them.
`

// pretty stands for all fields, for people. No argument can be that.
const pretty = "\x00"

// show is `show [IF|all|interfaces] [FIELD]`.
func (t *Tool) show(args []string) error {
	what, field := "all", pretty
	if len(args) > 0 {
		what = args[0]
	}
	if len(args) > 1 {
		field = args[1]
	}
	if len(args) == 1 && (what == "-h" || what == "--help" || what == "help") {
		t.Stderr.Write([]byte(showUsage))
		return nil
	}
	if len(args) > 2 || what == "interfaces" && len(args) > 1 {
		return showUsage
	}
	if what != "interfaces" && what != "all" {
		s, err := state(what)
		if err != nil {
			return err
		}
		return t.output(func(w *bufio.Writer) error { return t.print(w, what, s, field, "") })
	}
	names, err := uapi.Interfaces()
	if err != nil {
		return err
	}
	return t.output(func(w *bufio.Writer) error {
		shown := what == "interfaces"
		var failed error // the last
		for i, name := range names {
			last := i == len(names)-1
			if what == "interfaces" {
				w.WriteString(name)
				if last {
					w.WriteByte('\n')
				} else {
					w.WriteByte(' ')
				}
				continue
			}
			// One that does not answer does not hide the others, and is no error beside them.
			s, err := state(name)
			if err != nil {
				if failed != nil {
					t.Warn(failed.Error())
				}
				failed = err
				continue
			}
			shown = true
			if err := t.print(w, name, s, field, name+"\t"); err != nil {
				return err
			}
			if field == pretty && !last {
				w.WriteByte('\n')
			}
		}
		if shown && failed != nil {
			t.Warn(failed.Error())
			return nil
		}
		return failed
	})
}

// print shows one interface: each line of a field begins with prefix.
func (t *Tool) print(w *bufio.Writer, name string, s *conf.State, field, prefix string) error {
	defer s.Wipe()
	if field == pretty {
		t.pretty(w, name, s)
		return nil
	}
	if field == "dump" {
		dump(w, s, prefix)
		return nil
	}
	if value, ok := deviceField(s, field); ok {
		w.WriteString(prefix + value + "\n")
		return nil
	}
	if _, ok := peerField(new(conf.PeerState), field); !ok {
		return Usage("unknown field: " + field + "\n" + string(showUsage))
	}
	for i := range s.Peers {
		p := &s.Peers[i]
		value, _ := peerField(p, field)
		w.WriteString(prefix + p.PublicKey.String() + value + "\n")
	}
	return nil
}

func deviceField(s *conf.State, field string) (value string, ok bool) {
	switch field {
	case "public-key":
		return keyOrNone(publicKey(s)), true
	case "private-key":
		return keyOrNone(s.PrivateKey), true
	case "listen-port":
		return strconv.Itoa(int(s.ListenPort)), true
	case "fwmark":
		return markOrOff(s.FirewallMark), true
	}
	return "", false
}

// peerField is what stands behind the public key.
func peerField(p *conf.PeerState, field string) (value string, ok bool) {
	switch field {
	case "peers":
		return "", true
	case "preshared-keys":
		return "\t" + keyOrNone(p.PresharedKey), true
	case "endpoints":
		return "\t" + endpointOrNone(p.Endpoint), true
	case "allowed-ips":
		return "\t" + allowedIPs(p.AllowedIPs, " ", "/"), true
	case "latest-handshakes":
		return "\t" + strconv.FormatInt(seconds(p.LastHandshake), 10), true
	case "transfer":
		return "\t" + strconv.FormatUint(p.RxBytes, 10) + "\t" + strconv.FormatUint(p.TxBytes, 10), true
	case "persistent-keepalive":
		return "\t" + keepaliveOrOff(p.PersistentKeepalive), true
	}
	return "", false
}

func dump(w *bufio.Writer, s *conf.State, prefix string) {
	w.WriteString(prefix + keyOrNone(s.PrivateKey) + "\t" + keyOrNone(publicKey(s)) + "\t" +
		strconv.Itoa(int(s.ListenPort)) + "\t" + markOrOff(s.FirewallMark) + "\n")
	for i := range s.Peers {
		p := &s.Peers[i]
		w.WriteString(prefix)
		w.WriteString(p.PublicKey.String())
		w.WriteString("\t" + keyOrNone(p.PresharedKey))
		w.WriteString("\t" + endpointOrNone(p.Endpoint))
		w.WriteString("\t" + allowedIPs(p.AllowedIPs, ",", "/"))
		for _, field := range []string{"latest-handshakes", "transfer", "persistent-keepalive"} {
			value, _ := peerField(p, field)
			w.WriteString(value)
		}
		w.WriteByte('\n')
	}
}

const none = "(none)"

func publicKey(s *conf.State) (k conf.Key) {
	if !s.PrivateKey.IsZero() {
		private := noise.PrivateKey(s.PrivateKey)
		k = conf.Key(private.Public())
		clear(private[:])
	}
	return k
}

func keyOrNone(k conf.Key) string {
	if k.IsZero() {
		return none
	}
	return k.String()
}

func markOrOff(mark uint32) string {
	if mark == 0 {
		return "off"
	}
	return "0x" + strconv.FormatUint(uint64(mark), 16)
}

func keepaliveOrOff(n uint16) string {
	if n == 0 {
		return "off"
	}
	return strconv.Itoa(int(n))
}

func seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// endpointOrNone shows the zone as the name of the interface, if there is one.
func endpointOrNone(e netip.AddrPort) string {
	if !e.IsValid() {
		return none
	}
	nameZone(&e)
	if e.Addr().Is4() {
		return e.String()
	}
	return "[" + spell(e.Addr()) + "]:" + strconv.Itoa(int(e.Port()))
}

// spell is the text of an address as inet_ntop(3) has it: it takes more IPv6 addresses
// for IPv4 ones in disguise than netip does.
func spell(a netip.Addr) string {
	b := a.As16()
	if a.Is6() && [12]byte(b[:12]) == [12]byte{} && b[12]|b[13] != 0 {
		s := "::" + netip.AddrFrom4([4]byte(b[12:])).String()
		if a.Zone() != "" {
			s += "%" + a.Zone()
		}
		return s
	}
	return a.String()
}

func allowedIPs(prefixes []netip.Prefix, between, slash string) string {
	if len(prefixes) == 0 {
		return none
	}
	var b []byte
	for i, p := range prefixes {
		if i > 0 {
			b = append(b, between...)
		}
		b = append(b, spell(p.Addr())...)
		b = append(b, slash...)
		b = strconv.AppendInt(b, int64(p.Bits()), 10)
	}
	return string(b)
}

const showConfUsage Usage = "usage: wg showconf INTERFACE\n"

func (t *Tool) showConf(args []string) error {
	if len(args) != 1 {
		return showConfUsage
	}
	s, err := state(args[0])
	if err != nil {
		return err
	}
	defer s.Wipe()
	return t.output(func(w *bufio.Writer) error {
		writeFile(w, s)
		return nil
	})
}

// writeFile is the configuration that would make s.
func writeFile(w *bufio.Writer, s *conf.State) {
	line := func(key, value string) { w.WriteString(key + " = " + value + "\n") }
	w.WriteString("[Interface]\n")
	if s.ListenPort != 0 {
		line("ListenPort", strconv.Itoa(int(s.ListenPort)))
	}
	if s.FirewallMark != 0 {
		line("FwMark", markOrOff(s.FirewallMark))
	}
	if !s.PrivateKey.IsZero() {
		line("PrivateKey", s.PrivateKey.String())
	}
	w.WriteByte('\n')
	for i := range s.Peers {
		p := &s.Peers[i]
		if i > 0 {
			w.WriteByte('\n')
		}
		w.WriteString("[Peer]\n")
		line("PublicKey", p.PublicKey.String())
		if !p.PresharedKey.IsZero() {
			line("PresharedKey", p.PresharedKey.String())
		}
		if len(p.AllowedIPs) > 0 {
			line("AllowedIPs", allowedIPs(p.AllowedIPs, ", ", "/"))
		}
		if p.Endpoint.IsValid() {
			line("Endpoint", endpointOrNone(p.Endpoint))
		}
		if p.PersistentKeepalive != 0 {
			line("PersistentKeepalive", strconv.Itoa(int(p.PersistentKeepalive)))
		}
	}
}

// A style is how a terminal shows it, or nothing.
type style struct{ reset, bold, green, yellow, cyan, red string }

func (t *Tool) style() style {
	switch os.Getenv("WG_COLOR_MODE") {
	case "always":
	case "never":
		return style{}
	default:
		if !isTerminal(t.Stdout) {
			return style{}
		}
	}
	return style{"\x1b[0m", "\x1b[1m", "\x1b[32m", "\x1b[33m", "\x1b[36m", "\x1b[31m"}
}

// pretty is for people. Who was heard of last comes first.
func (t *Tool) pretty(w *bufio.Writer, name string, s *conf.State) {
	c := t.style()
	secret := func(k conf.Key) string {
		if os.Getenv("WG_HIDE_KEYS") == "never" {
			return k.String()
		}
		return "(hidden)"
	}
	line := func(key, value string) {
		w.WriteString("  " + c.bold + key + c.reset + ": " + value + "\n")
	}

	w.WriteString(c.reset + c.green + c.bold + "interface" + c.reset + ": " + c.green + name + c.reset + "\n")
	if !s.PrivateKey.IsZero() {
		line("public key", keyOrNone(publicKey(s)))
		line("private key", secret(s.PrivateKey))
	}
	if s.ListenPort != 0 {
		line("listening port", strconv.Itoa(int(s.ListenPort)))
	}
	if s.FirewallMark != 0 {
		line("fwmark", markOrOff(s.FirewallMark))
	}
	sort.Stable(byHandshake(s.Peers))
	now := time.Now().Unix()
	for i := range s.Peers {
		p := &s.Peers[i]
		w.WriteString("\n" + c.yellow + c.bold + "peer" + c.reset + ": " + c.yellow + p.PublicKey.String() + c.reset + "\n")
		if !p.PresharedKey.IsZero() {
			line("preshared key", secret(p.PresharedKey))
		}
		if p.Endpoint.IsValid() {
			line("endpoint", endpointOrNone(p.Endpoint))
		}
		line("allowed ips", allowedIPs(p.AllowedIPs, ", ", c.cyan+"/"+c.reset))
		if at := seconds(p.LastHandshake); at != 0 {
			line("latest handshake", c.ago(now-at))
		}
		if p.RxBytes != 0 || p.TxBytes != 0 {
			line("transfer", c.bytes(p.RxBytes)+" received, "+c.bytes(p.TxBytes)+" sent")
		}
		if p.PersistentKeepalive != 0 {
			line("persistent keepalive", "every "+c.duration(int64(p.PersistentKeepalive)))
		}
	}
}

// byHandshake has the latest first; the zero time is before all others.
type byHandshake []conf.PeerState

func (s byHandshake) Len() int           { return len(s) }
func (s byHandshake) Less(i, j int) bool { return s[i].LastHandshake.After(s[j].LastHandshake) }
func (s byHandshake) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }

func (c style) ago(seconds int64) string {
	switch {
	case seconds < 0:
		return "(" + c.red + "System clock wound backward; connection problems may ensue." + c.reset + ")"
	case seconds == 0:
		return "Now"
	}
	return c.duration(seconds) + " ago"
}

func (c style) duration(left int64) (text string) {
	for _, unit := range []struct {
		name    string
		seconds int64
	}{{"year", 365 * 24 * 3600}, {"day", 24 * 3600}, {"hour", 3600}, {"minute", 60}, {"second", 1}} {
		n := left / unit.seconds
		left %= unit.seconds
		if n == 0 {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += strconv.FormatInt(n, 10) + " " + c.cyan + unit.name
		if n != 1 {
			text += "s"
		}
		text += c.reset
	}
	return text
}

func (c style) bytes(n uint64) string {
	shift, unit := 0, "B"
	switch {
	case n >= 1<<40:
		shift, unit = 40, "TiB"
	case n >= 1<<30:
		shift, unit = 30, "GiB"
	case n >= 1<<20:
		shift, unit = 20, "MiB"
	case n >= 1<<10:
		shift, unit = 10, "KiB"
	}
	text := strconv.FormatUint(n, 10)
	if shift != 0 {
		text = strconv.FormatFloat(float64(n)/float64(uint64(1)<<shift), 'f', 2, 64)
	}
	return text + " " + c.cyan + unit + c.reset
}

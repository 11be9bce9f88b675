package conf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Position is a place in a file. Line and Column count from 1; a column is a
// character.
type Position struct {
	File         string
	Line, Column int
}

func (p Position) String() string {
	return p.File + ":" + strconv.Itoa(p.Line) + ":" + strconv.Itoa(p.Column)
}

// An Error is the first fault of a file. It never shows a key.
type Error struct {
	Position
	Key string // "" if the fault is not that of a key
	Err error
}

func (e *Error) Error() string { return message(e.Position, e.Key, e.Err.Error()) }
func (e *Error) Unwrap() error { return e.Err }

// A Warning is something that is accepted, but may not be meant.
type Warning struct {
	Position
	Key  string
	Text string
}

func (w Warning) String() string { return message(w.Position, w.Key, w.Text) }

func message(p Position, key, text string) string {
	if key != "" {
		text = key + ": " + text
	}
	return p.String() + ": " + text
}

// maxFile bounds what Load reads, in bytes: some 100,000 peers.
const maxFile = 32 << 20

// Load parses a file.
func Load(path string) (*Config, []Warning, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	// One more byte than fits tells a file that is too large. Grown buffers would leave
	// copies of the keys behind, so there is one buffer where the size is known.
	size := info.Size() + 1
	if !info.Mode().IsRegular() {
		size = maxFile + 1
	}
	if size > maxFile+1 {
		return nil, nil, fmt.Errorf("%s: larger than %d bytes", path, maxFile)
	}
	data := make([]byte, size)
	n := 0
	defer func() { clear(data[:n]) }()
	for n < len(data) {
		m, err := f.Read(data[n:])
		n += m
		if err == io.EOF || err == nil && m == 0 {
			break
		}
		if err != nil {
			return nil, nil, err // half a file is another configuration
		}
	}
	c, warnings, err := Parse(path, data[:n])
	if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0 {
		warnings = append(warnings, Warning{Position{path, 1, 1}, "", "everybody can read this file and its keys (chmod 600)"})
	}
	return c, warnings, err
}

// Parse reads an INI file; name is for messages. It accepts what wg(8) and
// wg-quick(8) accept, and also a byte order mark and comments by ';'. It refuses what
// wg takes for something else than it looks like: numbers out of range or with a sign,
// service names as ports, IPv4 endpoints that are not four decimal numbers. It keeps no reference to data.
func Parse(name string, data []byte) (*Config, []Warning, error) {
	p := parser{
		file:   name,
		config: new(Config),
		peers:  make(map[Key]int),
		owners: make(map[netip.Prefix]int),
	}
	if err := p.parse(data); err != nil {
		p.config.Wipe()
		return nil, nil, err
	}
	return p.config, p.warnings, nil
}

type section int

const (
	noSection section = iota
	interfaceSection
	peerSection
)

type parser struct {
	file     string
	config   *Config
	warnings []Warning

	section section
	header  int                  // line of the section
	hasKey  bool                 // the [Peer] has its PublicKey
	peers   map[Key]int          // public key -> line of its last [Peer]
	owners  map[netip.Prefix]int // allowed IP -> index of its peer

	number int    // of the line
	raw    []byte // the line
	key    string // as it is written
}

// fault is an error at an offset of the line.
func (p *parser) fault(offset int, format string, args ...any) error {
	return &Error{p.position(offset), p.key, fmt.Errorf(format, args...)}
}

func (p *parser) warn(offset int, format string, args ...any) {
	p.warnings = append(p.warnings, Warning{p.position(offset), p.key, fmt.Sprintf(format, args...)})
}

func (p *parser) position(offset int) Position {
	return Position{p.file, p.number, 1 + utf8.RuneCount(p.raw[:offset])}
}

func (p *parser) parse(data []byte) error {
	p.number = 1
	if bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff}) {
		return p.fault(0, "UTF-16 text (expected UTF-8)")
	}
	data, bom := bytes.CutPrefix(data, []byte("\ufeff"))
	if bom {
		p.warn(0, "byte order mark skipped (wg refuses the file with it)")
	}
	for more := true; more; p.number++ {
		p.raw, data, more = bytes.Cut(data, []byte{'\n'})
		if err := p.line(); err != nil {
			return err
		}
	}
	return p.endSection()
}

// isSpace is isspace(3) in the C locale, which wg(8) uses.
func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// skipSpace is the offset of the first character in raw[from:to] that is not a
// space, or to.
func skipSpace(raw []byte, from, to int) int {
	for from < to && isSpace(raw[from]) {
		from++
	}
	return from
}

// squeeze is s without its spaces: wg(8) ignores them wherever they are. The
// result is a new buffer.
func squeeze(s []byte) []byte {
	out := make([]byte, 0, len(s))
	for _, c := range s {
		if !isSpace(c) {
			out = append(out, c)
		}
	}
	return out
}

func (p *parser) line() error {
	p.key = ""
	raw := p.raw
	end := len(raw) // of the text before a comment
	if i := bytes.IndexByte(raw, '#'); i >= 0 {
		end = i
	}
	start := skipSpace(raw, 0, end)
	if start == end {
		return nil
	}
	if raw[start] == ';' {
		p.warn(start, "comment by ; (wg refuses the file with it; # is understood by all)")
		return nil
	}
	if raw[start] == '[' {
		return p.beginSection(start, end)
	}
	equals := bytes.IndexByte(raw[:end], '=')
	if equals < 0 {
		if err := p.plainText(start, end); err != nil {
			return err
		}
		return p.fault(start, "neither a section nor a key (expected Key = value)")
	}
	if err := p.plainText(start, equals); err != nil {
		return err
	}
	name := string(squeeze(raw[start:equals]))
	p.key = printableKey(name)
	if p.section == noSection {
		return p.fault(start, "stands before the first section (expected [Interface] or [Peer] above it)")
	}
	lower := strings.ToLower(name)
	if hook := p.hook(lower); hook != nil {
		return p.parseHook(hook, equals+1)
	}
	known := isInterfaceKey(lower)
	switch {
	case known && p.section == peerSection:
		return p.fault(start, "does not belong in [Peer] (expected in [Interface])")
	case !known && isPeerKey(lower) && p.section == interfaceSection:
		return p.fault(start, "does not belong in [Interface] (expected in [Peer])")
	case !known && !isPeerKey(lower):
		return p.fault(start, "unknown key (expected one of %s)", p.expectedKeys())
	}
	if err := p.plainText(equals+1, end); err != nil {
		return err
	}
	if known {
		return p.interfaceKey(lower, equals+1, end)
	}
	return p.peerKey(lower, equals+1, end)
}

func (p *parser) expectedKeys() string {
	if p.section == interfaceSection {
		return "PrivateKey, ListenPort, FwMark, Address, DNS, MTU, Table, PreUp, PostUp, PreDown, PostDown, SaveConfig, Memory, Offload"
	}
	return "PublicKey, PresharedKey, AllowedIPs, Endpoint, PersistentKeepalive"
}

// printableKey is a key as a message may show it. A line with nothing but a
// secret ends in '=', too.
func printableKey(name string) string {
	if len(name) > len("PersistentKeepalive")+1 {
		return ""
	}
	for i := range len(name) {
		if c := name[i] | 0x20; c < 'a' || c > 'z' {
			return ""
		}
	}
	return name
}

// plainText refuses characters that look like a space but are none, and control
// characters: the other messages would be of no help.
func (p *parser) plainText(from, to int) error {
	for i, size := from, 0; i < to; i += size {
		var r rune // decoded in place: a copy of the line might hold a key
		r, size = utf8.DecodeRune(p.raw[i:to])
		switch {
		case r == 0xa0, 0x2000 <= r && r <= 0x200f, 0x2028 <= r && r <= 0x202f, r == 0x205f, r == 0x2060, r == 0x3000, r == 0xfeff:
			return p.fault(i, "character U+%04X, which looks like a space or like nothing (expected a plain space)", r)
		case r < ' ' && !isSpace(byte(r)), r == 0x7f:
			return p.fault(i, "control character U+%04X (expected text)", r)
		}
	}
	return nil
}

func (p *parser) beginSection(start, end int) error {
	if err := p.plainText(start, end); err != nil {
		return err
	}
	next := noSection
	switch strings.ToLower(string(squeeze(p.raw[start:end]))) {
	case "[interface]":
		next = interfaceSection
	case "[peer]":
		next = peerSection
	default:
		return p.fault(start, "unknown section (expected [Interface] or [Peer])")
	}
	if err := p.endSection(); err != nil {
		return err
	}
	p.section, p.header, p.hasKey = next, p.number, false
	if next == peerSection {
		p.config.Peers = append(p.config.Peers, Peer{})
	}
	return nil
}

func (p *parser) endSection() error {
	if p.section == peerSection && !p.hasKey {
		return &Error{Position{p.file, p.header, 1}, "PublicKey", errors.New("missing in this [Peer] (expected one)")}
	}
	return nil
}

func isInterfaceKey(lower string) bool {
	switch lower {
	case "privatekey", "listenport", "fwmark", "address", "dns", "mtu", "table", "saveconfig",
		"memory", "offload", "preup", "postup", "predown", "postdown":
		return true
	}
	return false
}

func isPeerKey(lower string) bool {
	switch lower {
	case "publickey", "presharedkey", "allowedips", "endpoint", "persistentkeepalive":
		return true
	}
	return false
}

// hook is the list of a hook key in an [Interface], else nil.
func (p *parser) hook(lower string) *[]string {
	if p.section != interfaceSection {
		return nil
	}
	f := &p.config.Interface
	switch lower {
	case "preup":
		return &f.PreUp
	case "postup":
		return &f.PostUp
	case "predown":
		return &f.PreDown
	case "postdown":
		return &f.PostDown
	}
	return nil
}

// parseHook takes the rest of the line as it is: a '#' is the shell's business.
func (p *parser) parseHook(hook *[]string, from int) error {
	from = skipSpace(p.raw, from, len(p.raw))
	to := len(p.raw)
	for to > from && isSpace(p.raw[to-1]) {
		to--
	}
	if i := bytes.IndexByte(p.raw[from:to], 0); i >= 0 {
		return p.fault(from+i, "zero byte (expected a shell command)")
	}
	if from < to {
		*hook = append(*hook, string(p.raw[from:to]))
	}
	return nil
}

// show is a value as a message may quote it: if it is short, an address, or a
// name. The rest may be a key, or a part of one.
func show(value []byte) string {
	const address, name = "0123456789abcdefABCDEF.:/%[]", "0123456789abcdefghijklmnopqrstuvwxyz.:/%[]-_"
	s := string(value)
	if len(s) <= 12 || len(s) <= 80 && (strings.Trim(s, address) == "" || strings.ContainsAny(s, ".:") && strings.Trim(s, name) == "") {
		return s
	}
	return "the value"
}

func (p *parser) interfaceKey(lower string, from, to int) error {
	f := &p.config.Interface
	switch lower {
	case "address":
		return p.words(from, to, func(at int, word []byte) error {
			prefix, err := p.prefix(at, word, "10.0.0.1/24 or 2001:db8::1/64")
			f.Address = append(f.Address, prefix)
			return err
		})
	case "dns":
		return p.words(from, to, func(at int, word []byte) error {
			if addr, err := netip.ParseAddr(string(word)); err == nil {
				f.DNS = append(f.DNS, addr)
				return nil
			}
			if !isHostName(string(word)) {
				return p.fault(at, "%s: not an address or domain (expected 192.0.2.53 or example.com)", show(word))
			}
			f.Search = append(f.Search, string(word))
			return nil
		})
	}

	at := skipSpace(p.raw, from, to)
	value := squeeze(p.raw[from:to])
	defer clear(value)
	switch lower {
	case "privatekey":
		k, err := p.parseKey(at, value)
		f.PrivateKey = &k
		return err
	case "listenport":
		const expected = "0 to 65535"
		n, err := p.uint(at, value, 1<<16-1, expected)
		port := uint16(n)
		f.ListenPort = &port
		return err
	case "fwmark":
		const expected = "off, or 0 to 4294967295, or 0x0 to 0xffffffff"
		mark := uint32(0)
		f.FwMark = &mark
		if isOff(value) {
			return nil
		}
		if hex, ok := bytes.CutPrefix(value, []byte("0x")); ok {
			n, err := strconv.ParseUint(string(hex), 16, 32)
			if err != nil {
				return p.fault(at, "%s: not a mark (expected %s)", show(value), expected)
			}
			mark = uint32(n)
			return nil
		}
		n, err := p.uint(at, value, 1<<32-1, expected)
		mark = uint32(n)
		return err
	case "mtu":
		f.MTU = 0
		if len(value) == 0 {
			return nil // wg-quick: automatic
		}
		const expected = "68 to 65535 bytes"
		n, err := p.uint(at, value, 1<<16-1, expected)
		if err == nil && n < 68 {
			err = p.fault(at, "%s: out of range (expected %s)", value, expected)
		}
		f.MTU = int(n)
		return err
	case "table":
		f.Table = ""
		const expected = "off, auto, or a routing table, 1 to 4294967295 or its name"
		text := string(value)
		lower := strings.ToLower(text)
		switch {
		case lower == "auto", len(value) == 0:
			return nil
		case lower == "off":
			f.Table = "off"
			return nil
		case '0' <= text[0] && text[0] <= '9':
			base := 10
			digits, hex := strings.CutPrefix(lower, "0x")
			if hex {
				base = 16
			}
			n, err := strconv.ParseUint(digits, base, 32)
			if err != nil || n == 0 {
				return p.fault(at, "%s: not a table (expected %s)", show(value), expected)
			}
		case !isHostName(text):
			return p.fault(at, "%s: not a table (expected %s)", show(value), expected)
		}
		f.Table = text
		return nil
	case "memory":
		n, err := ParseMemory(string(value))
		if err != nil {
			return p.fault(at, "%s (%w)", wrong(value), err)
		}
		f.Memory = n
		return nil
	case "offload":
		// Which names there are is the device's affair.
		f.Offload = strings.ToLower(string(value))
		if strings.Trim(f.Offload, "abcdefghijklmnopqrstuvwxyz,") != "" || f.Offload == "" {
			return p.fault(at, "%s (expected all, none, or names between commas)", wrong(value))
		}
		return nil
	case "saveconfig":
		switch strings.ToLower(string(value)) {
		case "true":
			f.SaveConfig = true
		case "false":
			f.SaveConfig = false
		default:
			return p.fault(at, "%s (expected true or false)", wrong(value))
		}
		return nil
	}
	panic("conf: key " + lower)
}

// minMemory is the least that a budget is made for: less than Linux runs on.
const minMemory = 8 << 20

var errMemory = errors.New("expected bytes, or a number and K, M or G, at least 8M")

// ParseMemory reads an amount of memory: bytes, or a number and K, M or G.
func ParseMemory(s string) (int64, error) {
	digits := strings.TrimRight(s, "kKmMgG")
	shift := map[string]int{"": 0, "K": 10, "M": 20, "G": 30}
	by, ok := shift[strings.ToUpper(s[len(digits):])]
	n, err := strconv.ParseUint(digits, 10, 63)
	if !ok || err != nil || n > math.MaxInt64>>by || n<<by < minMemory {
		return 0, errMemory
	}
	return int64(n << by), nil
}

func (p *parser) peerKey(lower string, from, to int) error {
	index := len(p.config.Peers) - 1
	peer := &p.config.Peers[index]
	if lower == "allowedips" {
		return p.list(from, to, func(at int, item []byte) error {
			prefix, err := p.prefix(at, item, "192.0.2.0/24 or 2001:db8::/32")
			if err != nil {
				return err
			}
			if masked := prefix.Masked(); masked != prefix {
				p.warn(at, "%s has bits behind its prefix, %s is used", prefix, masked)
				prefix = masked
			}
			if owner, taken := p.owners[prefix]; taken && p.config.Peers[owner].PublicKey != peer.PublicKey {
				p.warn(at, "%s moves here from another peer above", prefix)
			}
			p.owners[prefix] = index
			peer.AllowedIPs = append(peer.AllowedIPs, prefix)
			return nil
		})
	}

	at := skipSpace(p.raw, from, to)
	value := squeeze(p.raw[from:to])
	defer clear(value)
	switch lower {
	case "publickey":
		k, err := p.parseKey(at, value)
		if err != nil {
			return err
		}
		peer.PublicKey, p.hasKey = k, true
		if line, again := p.peers[k]; again && line != p.header {
			p.warn(at, "the peer of line %d again; what is set last counts", line)
		}
		p.peers[k] = p.header
		return nil
	case "presharedkey":
		k, err := p.parseKey(at, value)
		peer.PresharedKey = &k
		return err
	case "persistentkeepalive":
		seconds := uint16(0)
		peer.PersistentKeepalive = &seconds
		if isOff(value) {
			return nil
		}
		n, err := p.uint(at, value, 1<<16-1, "off, or 0 to 65535 seconds")
		seconds = uint16(n)
		return err
	case "endpoint":
		e, what := parseEndpoint(string(value))
		if what != "" {
			return p.fault(at, "%s: %s (expected 192.0.2.1:51820, [2001:db8::1]:51820 or name:51820)", show(value), what)
		}
		peer.Endpoint = &e
		return nil
	}
	panic("conf: key " + lower)
}

func isOff(value []byte) bool { return strings.EqualFold(string(value), "off") }

// wrong says that there is a wrong value or none.
func wrong(value []byte) string {
	if len(value) == 0 {
		return "no value"
	}
	return show(value) + ": wrong value"
}

func (p *parser) parseKey(at int, value []byte) (Key, error) {
	k, err := parseKey(value)
	if err == nil {
		return k, nil
	}
	if len(value) == 0 {
		return k, p.fault(at, "no value (expected a key, 44 characters of base64)")
	}
	return k, p.fault(at, "%w", err)
}

// uint is a decimal number; leading zeros do not make it octal.
func (p *parser) uint(at int, value []byte, limit uint64, expected string) (uint64, error) {
	if len(value) == 0 {
		return 0, p.fault(at, "no value (expected %s)", expected)
	}
	n := uint64(0)
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, p.fault(at, "%s: not a number (expected %s)", show(value), expected)
		}
		// n <= limit < 2³², so this fits.
		if n = 10*n + uint64(c-'0'); n > limit {
			return 0, p.fault(at, "%s: out of range (expected %s)", show(value), expected)
		}
	}
	return n, nil
}

// list calls f with each item of a comma-separated list, at least one, none
// empty, without its spaces.
func (p *parser) list(from, to int, f func(at int, item []byte) error) error {
	for {
		end := to
		if i := bytes.IndexByte(p.raw[from:to], ','); i >= 0 {
			end = from + i
		}
		if err := f(skipSpace(p.raw, from, end), squeeze(p.raw[from:end])); err != nil {
			return err
		}
		if end == to {
			return nil
		}
		from = end + 1
	}
}

// words calls f with what stands between commas and spaces, which is how
// wg-quick(8) reads its own lists; there may be nothing.
func (p *parser) words(from, to int, f func(at int, word []byte) error) error {
	for from < to {
		end := from
		for end < to && p.raw[end] != ',' && !isSpace(p.raw[end]) {
			end++
		}
		if end > from {
			if err := f(from, p.raw[from:end]); err != nil {
				return err
			}
		}
		from = end + 1
	}
	return nil
}

// prefix is an address with or without a prefix length. Host bits are kept.
func (p *parser) prefix(at int, text []byte, expected string) (netip.Prefix, error) {
	if len(text) == 0 {
		return netip.Prefix{}, p.fault(at, "no address (expected %s)", expected)
	}
	host, mask, hasMask := strings.Cut(string(text), "/")
	addr, err := netip.ParseAddr(host)
	if err != nil || addr.Zone() != "" {
		return netip.Prefix{}, p.fault(at, "%s: not an address (expected %s)", show(text), expected)
	}
	bits := addr.BitLen()
	if hasMask {
		n := 0
		for i := range len(mask) {
			if mask[i] < '0' || mask[i] > '9' {
				mask = ""
				break
			}
			n = min(10*n+int(mask[i]-'0'), 1000)
		}
		switch {
		case mask == "":
			return netip.Prefix{}, p.fault(at, "%s: prefix length is not a number (expected %s)", show(text), expected)
		case n > bits:
			return netip.Prefix{}, p.fault(at, "%s: prefix longer than %d bits (expected %s)", show(text), bits, expected)
		}
		bits = n
	}
	return netip.PrefixFrom(addr, bits), nil
}

// parseEndpoint reads host:port, or says what is wrong. The last colon counts, so
// an IPv6 address needs no brackets.
func parseEndpoint(s string) (e Endpoint, what string) {
	if s == "" {
		return e, "no value"
	}
	var port string
	if inner, ok := strings.CutPrefix(s, "["); ok {
		host, rest, ok := strings.Cut(inner, "]")
		if !ok {
			return e, "no closing bracket"
		}
		if port, ok = strings.CutPrefix(rest, ":"); !ok {
			return e, "no port behind the bracket"
		}
		e.Host = host
	} else {
		i := strings.LastIndexByte(s, ':')
		if i < 0 {
			return e, "no port"
		}
		e.Host, port = s[:i], s[i+1:]
	}
	n := 0
	for i := range len(port) {
		if port[i] < '0' || port[i] > '9' {
			return e, "port is not a number"
		}
		if n = 10*n + int(port[i]-'0'); n > 1<<16-1 {
			return e, "port out of range 0 to 65535"
		}
	}
	if port == "" {
		return e, "no port"
	}
	e.Port = uint16(n)
	return e, checkHost(e.Host)
}

func checkHost(host string) (what string) {
	if host == "" {
		return "no host"
	}
	addr, err := netip.ParseAddr(host)
	if err == nil {
		if zone := addr.Zone(); zone != "" && (len(zone) > 15 || strings.ContainsAny(zone, "[]/%:")) {
			return "zone is not an interface"
		}
		return ""
	}
	if strings.ContainsAny(host, ":%") {
		return "not an IPv6 address"
	}
	// inet_aton(3) would take 16909060, 0x1020304, 1.2.772 and 010.0.0.1 as addresses.
	last := host[strings.LastIndexByte(strings.TrimSuffix(host, "."), '.')+1:]
	if '0' <= last[0] && last[0] <= '9' {
		if _, err := strconv.ParseUint(strings.TrimSuffix(last, "."), 0, 64); err == nil || isDigits(last) {
			return "not an IPv4 address of four decimal numbers"
		}
	}
	if !isHostName(host) {
		return "not a host name"
	}
	return ""
}

func isDigits(s string) bool { return strings.Trim(s, "0123456789.") == "" }

// isHostName accepts letters, digits, '-', '_', dots, and all that is not ASCII.
func isHostName(s string) bool {
	if s == "" || len(s) > 253 || !utf8.ValidString(s) {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.', c >= 0x80:
		default:
			return false
		}
	}
	return true
}

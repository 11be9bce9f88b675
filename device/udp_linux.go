package device

type datagram struct {
	data []byte
	from endpoint
	tos  byte
}

type segment struct {
	off, len int
	tos      byte
}

type conn interface {
	serve(handle func([]datagram)) error
	send(to *endpoint, buf []byte, segs []segment) error
	setMark(mark uint32) error
	port() uint16
	close() error
}

// offloads says which kernel features may be used.
type offloads struct {
	sendmmsg bool
}

func listenUDP(port uint16, mark uint32, off offloads) (v4, v6 conn, actual uint16, err error) {
	return nil, nil, 0, nil
}

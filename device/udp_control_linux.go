package device

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A control message, cmsg(3), in host order; a word is as long as a pointer:
//
//	| length: word | level: 4 | kind: 4 | data … | pad to a word |
//	<----------- length counts --------------->
const wordSize = int(unsafe.Sizeof(uintptr(0)))

func parseControl(b []byte) (level, kind uint32, data, rest []byte) {
	var n uint64
	if wordSize == 8 {
		n = binary.NativeEndian.Uint64(b)
	} else {
		n = uint64(binary.NativeEndian.Uint32(b))
	}
	level = binary.NativeEndian.Uint32(b[wordSize:])
	kind = binary.NativeEndian.Uint32(b[wordSize+4:])
	if n < unix.SizeofCmsghdr || n > uint64(len(b)) {
		return 0, 0, nil, nil
	}
	return level, kind, b[unix.SizeofCmsghdr:n], b[min(len(b), unix.CmsgSpace(int(n)-unix.SizeofCmsghdr)):]
}

// appendControl begins a control message of n bytes of data.
func appendControl(b []byte, level, kind uint32, n int) []byte {
	if wordSize == 8 {
		b = binary.NativeEndian.AppendUint64(b, uint64(unix.CmsgLen(n)))
	} else {
		b = binary.NativeEndian.AppendUint32(b, uint32(unix.CmsgLen(n)))
	}
	b = binary.NativeEndian.AppendUint32(b, level)
	return binary.NativeEndian.AppendUint32(b, kind)
}

func padControl(b []byte) []byte {
	for len(b)%wordSize != 0 {
		b = append(b, 0)
	}
	return b
}

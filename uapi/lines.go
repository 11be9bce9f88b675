package uapi

import (
	"bytes"
	"errors"
	"io"
)

// bufferSize bounds a line, which is at most some 120 bytes long, and is the
// size of a read.
const bufferSize = 4096

var errLongLine = errors.New("line too long")

// A lineReader cuts lines from r. What it returns may be a private key: the
// caller clears each line after use, and wipe clears what was never returned.
type lineReader struct {
	r          io.Reader
	limit      int // bytes of an operation; 0: none
	start, end int // of the unread bytes in buf
	total      int // bytes read since somebody zeroed it
	buf        [bufferSize]byte
}

// next returns a line without its '\n', valid until the following call. A line
// that does not fit is skipped to its end and reported as errLongLine. An
// unfinished last line is never returned: the error is io.ErrUnexpectedEOF then.
func (l *lineReader) next() ([]byte, error) {
	long := false
	for {
		unread := l.buf[l.start:l.end]
		if i := bytes.IndexByte(unread, '\n'); i >= 0 {
			l.start += i + 1
			if long {
				clear(unread[:i])
				return nil, errLongLine
			}
			return unread[:i], nil
		}
		if len(unread) == len(l.buf) {
			long = true
			l.wipe()
		} else if l.start > 0 {
			// Leave no second copy behind.
			n := copy(l.buf[:], unread)
			clear(l.buf[n:l.end])
			l.start, l.end = 0, n
		}
		n, err := l.r.Read(l.buf[l.end:])
		l.end += n
		l.total += n
		if n > 0 {
			continue
		}
		if err == io.EOF && (long || l.end > 0) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
	}
}

// buffered tells whether a part of the next line has been read.
func (l *lineReader) buffered() bool { return l.end > l.start }

func (l *lineReader) wipe() {
	clear(l.buf[:l.end])
	l.start, l.end = 0, 0
}

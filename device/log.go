package device

import (
	"fmt"
	"io"
	"sync"
)

// A Level says what is logged.
type Level int

const (
	LogSilent  Level = iota
	LogError         // what somebody must act on
	LogVerbose       // handshakes, too
)

// A Logger writes lines of the form `wg0: fact`. Secrets are never among them. A nil
// Logger writes nothing.
type Logger struct {
	level Level
	name  string

	mu   sync.Mutex
	w    io.Writer
	told map[string]bool // by once
}

// maxTold bounds what a Logger remembers.
const maxTold = 64

// NewLogger returns a Logger for an interface.
func NewLogger(w io.Writer, ifname string, level Level) *Logger {
	return &Logger{level: level, name: ifname, w: w}
}

// Errorf logs what somebody must act on.
func (l *Logger) Errorf(format string, args ...any) { l.printf(LogError, format, args) }

// Verbosef logs what helps to understand a fault.
func (l *Logger) Verbosef(format string, args ...any) { l.printf(LogVerbose, format, args) }

// once logs what is said once: sockets come and go, and what the kernel refuses stays.
func (l *Logger) once(level Level, format string, args ...any) {
	if l == nil || l.level < level {
		return
	}
	line := fmt.Sprintf(format, args...)
	l.mu.Lock()
	told := l.told[line]
	if !told && len(l.told) < maxTold {
		if l.told == nil {
			l.told = make(map[string]bool)
		}
		l.told[line] = true
	}
	l.mu.Unlock()
	if !told {
		l.printf(level, "%s", []any{line})
	}
}

func (l *Logger) printf(level Level, format string, args []any) {
	if l == nil || l.level < level {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, l.name+": "+format+"\n", args...)
}

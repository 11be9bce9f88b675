package chacha20poly1305

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	xcrypto "golang.org/x/crypto/chacha20poly1305"
)

// BenchmarkAgainstReference times the implementation in use and x/crypto in turns
// and reports the least time of each, ns, and the second over the first: a machine
// that others use slows single turns, and both alike.
func BenchmarkAgainstReference(b *testing.B) {
	const turns, calls = 2000, 16
	for _, n := range []int{0, 64, 256, 576, 1420, 16384} {
		var c Cipher
		key := [KeySize]byte(random("key", KeySize))
		c.Init(&key)
		ref := must(xcrypto.New(key[:]))
		nonce := binary.LittleEndian.AppendUint64(make([]byte, 4), 1)
		buf, sealed := make([]byte, n+Overhead), make([]byte, n+Overhead)
		c.Seal(sealed, 1, buf[:n], nil)
		for _, f := range []struct {
			name      string
			ours, ref func()
		}{
			{"Seal", func() { c.Seal(buf, 1, buf[:n], nil) }, func() { ref.Seal(buf[:0], nonce, buf[:n], nil) }},
			{"Open", func() { c.Open(buf, 1, sealed, nil) }, func() { ref.Open(buf[:0], nonce, sealed, nil) }},
		} {
			b.Run(fmt.Sprintf("%s/%d", f.name, n), func(b *testing.B) {
				least := [2]time.Duration{1 << 62, 1 << 62}
				for b.Loop() {
					for range turns {
						for i, call := range [2]func(){f.ours, f.ref} {
							start := time.Now()
							for range calls {
								call()
							}
							least[i] = min(least[i], time.Since(start))
						}
					}
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(least[0])/calls, "ns-ours")
				b.ReportMetric(float64(least[1])/calls, "ns-ref")
				b.ReportMetric(float64(least[1])/float64(least[0]), "ratio")
			})
		}
	}
}

//go:build race

package chacha20poly1305

func init() { raceDetector = true }

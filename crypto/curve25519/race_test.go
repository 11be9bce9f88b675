//go:build race

package curve25519

func init() { raceDetector = true }

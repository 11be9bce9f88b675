// Package loud is for tests that cannot run everywhere.
package loud

import (
	"os"
	"testing"
)

// Skip skips a test that needs what is not here. In CI nothing may be missing, so
// there it fails.
func Skip(t testing.TB, why ...any) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(append([]any{"CI skips nothing:"}, why...)...)
	}
	t.Skip(why...)
}

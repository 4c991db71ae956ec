package enginetest

import "testing"

func golden(t *testing.T, open New) {}

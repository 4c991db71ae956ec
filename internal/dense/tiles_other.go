//go:build !amd64 || purego

package dense

// tiles returns the plain tile: this build has no vector code.
func tiles() []*tile { return []*tile{&plainTile} }

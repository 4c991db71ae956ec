//go:build !amd64 || purego

package dense

// tiles has no vector code in this build.
func tiles() []*tile { return []*tile{&plainTile} }

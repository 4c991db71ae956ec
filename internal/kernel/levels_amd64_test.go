//go:build amd64 && !purego

package kernel

import "testing"

// TestWideZen5: of AMD's processors only Zen 5 with 512-bit units takes tiles
// of 32 streams.
func TestWideZen5(t *testing.T) {
	for signature, want := range map[uint32]bool{
		0x00b00f21: true,  // server, where it was measured
		0x00b10f10: true,  // server with more cores
		0x00b40f40: true,  // desktop
		0x00b20f40: false, // laptop: 512 bits in two halves
		0x00b60f00: false,
		0x00a10f11: false, // Zen 4
		0x00a00f11: false, // Zen 3
		0x000c06f2: false, // Emerald Rapids, if it were AMD's
	} {
		if got := wideZen5(signature); got != want {
			t.Errorf("signature %08x: %v, want %v", signature, got, want)
		}
	}
}

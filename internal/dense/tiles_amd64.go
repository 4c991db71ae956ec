//go:build amd64 && !purego

package dense

import "golang.org/x/sys/cpu"

// tiles returns the tiles for this machine, best first.
func tiles() []*tile {
	var t []*tile
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ {
		t = append(t, &tile{name: "avx512", lanes: 8, run: tileAVX512, solve: solveAVX512, widen: widenAVX512, peak: peakAVX512})
	}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		t = append(t, &tile{name: "avx2", lanes: 4, run: tileAVX2, solve: solveAVX2, widen: widenAVX2, peak: peakAVX2})
	}
	return append(t, &plainTile)
}

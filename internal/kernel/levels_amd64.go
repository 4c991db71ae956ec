//go:build amd64 && !purego

package kernel

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// Levels are the sets this machine can run, best first.
func Levels() []*Set {
	var s []*Set
	x := &cpu.X86
	if x.HasAVX512F && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX512BW && x.HasBMI2 {
		s = append(s, &setAVX512)
	}
	if x.HasAVX2 && x.HasFMA && x.HasBMI2 {
		s = append(s, &setAVX2)
	}
	return s
}

var setAVX512 = Set{
	Name: "avx512", Vector: 16, Rows: 10, blocks: 14, Tile: tileAVX512(),
	Wide: Shape{
		Lanes: 32, woven: true,
		Steps: func(s *Steps) { stepsWideAVX512((*byte)(unsafe.Pointer(s))) },
		Ring:  func(s *Steps) { ringWideAVX512((*byte)(unsafe.Pointer(s))) },
	},
	Narrow: Shape{
		Lanes: 16,
		Steps: func(s *Steps) { stepsNarrowAVX512((*byte)(unsafe.Pointer(s))) },
		Ring:  func(s *Steps) { ringNarrowAVX512((*byte)(unsafe.Pointer(s))) },
	},
	Single:     func(s *Steps) { stepsSingleAVX512((*byte)(unsafe.Pointer(s))) },
	RingSingle: func(s *Steps) { ringSingleAVX512((*byte)(unsafe.Pointer(s))) },
	Load:       loadAVX512, Store: storeAVX512, Spread: spreadAVX512, Collect: collectAVX512,
	Features: FeatureKernels{Mean: meanAVX512, Share: shareAVX512, Deviation: deviationAVX512, Limited: limitedAVX512, Novelty: noveltyAVX512, Few: &setAVX2,
		Apart: &ApartKernels{apart1xAVX512, apart8xAVX512}, LimitedApart: &ApartKernels{limitedApart1xAVX512, limitedApart8xAVX512}},
	Scores: scores1xAVX512, ScoresOfMany: scores8xAVX512,
	Prefetch: prefetchAVX512, Within: withinAVX512, peak: peakAVX512,
}

// tileAVX512 returns the tile of AVX-512 that is quicker a stream on this core.
// If products take all of two 512-bit units and loads are two a cycle, 16
// streams need 11 loads for 10 multiply-adds, 32 streams 12 for 20. So 32 are
// quicker on AMD's cores of family 26 (Zen 5) that have 512-bit units, and 16 on
// all other measured cores: Zen 4, Emerald Rapids (docs/results.md).
func tileAVX512() int {
	_, b, c, d := cpuid(0)
	amd := b == 0x68747541 && d == 0x69746e65 && c == 0x444d4163 // AuthenticAMD
	id, _, _, _ := cpuid(1)
	if amd && wideZen5(id) {
		return 32
	}
	return 16
}

// wideZen5 reports whether an AMD processor's signature is Zen 5 with 512-bit
// units: processors for servers and desktops. Laptop processors take 512 bits
// in two halves, as Zen 4 does.
func wideZen5(signature uint32) bool {
	family, model := signature>>8&15, signature>>4&15
	if family == 15 {
		family += signature >> 20 & 255
		model |= signature >> 12 & 0xf0
	}
	return family == 26 && (model < 0x20 || model >= 0x40 && model < 0x50)
}

var setAVX2 = Set{
	Name: "avx2", Vector: 8, Rows: 5, blocks: 12, kits: stagedKits, Tile: 16,
	Wide: Shape{
		Lanes: 16,
		Steps: func(s *Steps) { stepsWideAVX2((*byte)(unsafe.Pointer(s))) },
		Ring:  func(s *Steps) { ringWideAVX2((*byte)(unsafe.Pointer(s))) },
	},
	Narrow: Shape{
		Lanes: 8,
		Steps: func(s *Steps) { stepsNarrowAVX2((*byte)(unsafe.Pointer(s))) },
		Ring:  func(s *Steps) { ringNarrowAVX2((*byte)(unsafe.Pointer(s))) },
	},
	Single:     func(s *Steps) { stepsSingleAVX2((*byte)(unsafe.Pointer(s))) },
	RingSingle: func(s *Steps) { ringSingleAVX2((*byte)(unsafe.Pointer(s))) },
	Load:       loadAVX2, Store: storeAVX2, Spread: spreadAVX2, Collect: collectAVX2,
	Features: FeatureKernels{Mean: meanAVX2, Share: shareAVX2, Deviation: deviationAVX2, Limited: limitedAVX2, Novelty: noveltyAVX2,
		Apart: &ApartKernels{apart1xAVX2, apart8xAVX2}, LimitedApart: &ApartKernels{limitedApart1xAVX2, limitedApart8xAVX2}},
	Scores: scores1xAVX2, ScoresOfMany: scores8xAVX2,
	Prefetch: prefetchAVX2, Within: withinAVX2, peak: peakAVX2,
}

var noveltyAVX512 = NoveltyKernels{Scale: scale1xAVX512, ScaleMany: scale8xAVX512, Together: togetherAVX512,
	Project: []ProjectKernels{{48, project48_1xAVX512, project48_8xAVX512}, {40, project40_1xAVX512, project40_8xAVX512},
		{32, project32_1xAVX512, project32_8xAVX512}, {16, project16_1xAVX512, project16_8xAVX512}, {8, project8_1xAVX2, project8_8xAVX2}}}

var noveltyAVX2 = NoveltyKernels{Scale: scale1xAVX2, ScaleMany: scale8xAVX2, Project: []ProjectKernels{{8, project8_1xAVX2, project8_8xAVX2}}}

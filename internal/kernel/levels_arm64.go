//go:build arm64 && !purego

package kernel

// Levels are the sets this machine can run, best first. Every arm64 machine
// that Go runs on has NEON.
func Levels() []*Set { return []*Set{&setNEON} }

// setNEON has vectors of two registers, eight lanes.
var setNEON = Set{
	Name: "neon", Vector: 8, Rows: 5, blocks: 12, Tile: 16,
	Wide:   Shape{Lanes: 16, Steps: stepsWideNEON, Ring: ringWideNEON},
	Narrow: Shape{Lanes: 8, Steps: stepsNarrowNEON, Ring: ringNarrowNEON},
	Single: stepsSingleNEON,
	Load:   loadNEON, Store: storeNEON, Spread: spreadNEON, Collect: collectNEON,
	Features: FeatureKernels{Mean: meanNEON, Share: shareNEON, Deviation: deviationNEON, Limited: limitedNEON, Novelty: noveltyNEON},
	Scores:   scores1xNEON, ScoresOfMany: scores8xNEON,
	Prefetch: prefetchNEON, Within: withinNEON, peak: peakNEON,
}

var noveltyNEON = NoveltyKernels{Scale: scale1xNEON, ScaleMany: scale8xNEON, Project: []ProjectKernels{{8, project1xNEON, project8xNEON}}}

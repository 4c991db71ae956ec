package reservoir

// StatisticsSize returns the number of Statistics: one for each channel and mean, or two for
// each segment and channel; 0 for a nil front end.
func (f *Front) StatisticsSize(channels int) int {
	if f == nil {
		return 0
	}
	return channels * (len(f.Means) + f.Segments.numbers())
}

// updateMeans takes the next output samples, after n earlier output samples of the
// sequence. state has the means of a channel after those of the previous channel.
//
// Canonical, and the same on every platform: float64, one rounding for each operation:
// mean = mean + (y - mean)/min(k, length), with a division by min as a product with the
// rounded 1/min, and k = n+1 for the first sample.
func (f *Front) updateMeans(state []float64, n int64, samples []float32, channels int) {
	means := len(f.Means)
	if means == 0 {
		return
	}
	var shares [maxMeans]float64
	for ; len(samples) > 0; samples = samples[channels:] {
		n++
		for k, length := range f.Means {
			shares[k] = share(n, length)
		}
		for c, y := range samples[:channels] {
			for k, mean := range state[c*means : (c+1)*means] {
				state[c*means+k] = mean + float64(shares[k]*(float64(y)-mean))
			}
		}
	}
}

// Statistics writes StatisticsSize numbers of the state that Run has left to dst. The
// statistics of a channel with the means m0, m1, m2 are m0, m0 - m1, m1 - m2: its present
// level, and changes of the level over increasing times. Each is computed in float64, and
// rounded to float32. See Segments for theirs.
func (f *Front) Statistics(dst []float32, state []float64, channels int) {
	means := len(f.Means)
	state = state[f.partsSize(channels):]
	if f.Segments != nil {
		f.Segments.statistics(dst, state)
		return
	}
	for i := range channels * means {
		v := state[i]
		if i%means > 0 {
			v = state[i-1] - v
		}
		dst[i] = float32(v)
	}
}

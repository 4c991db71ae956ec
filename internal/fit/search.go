package fit

// coarse is the maximum number of points in the first round of a search.
const coarse = 5

// search minimizes eval over the indices 0..n-1 of an ascending grid and returns the best
// index. Every evaluation may cost a factorization, so search does not try every point: a
// first round spreads up to five points evenly over the whole grid, then the spacing is halved
// repeatedly and only the neighbors of the best point so far are tried. For the 19 default
// alphas: every second decade, then the neighboring decades, then the half decades; nine
// evaluations. search finds the minimum of any error that falls and then rises, like
// leave-one-out errors in log alpha in practice; otherwise search finds the lowest valley of
// the first round. If errors are equal, the first tried point wins.
func search(n int, eval func(i int) (float64, error)) (int, error) {
	step, start := firstRound(n)
	best, least := -1, 0.0
	try := func(i int) error {
		e, err := eval(i)
		if err == nil && (best < 0 || e < least) {
			best, least = i, e
		}
		return err
	}
	for i := start; i < n; i += step {
		if err := try(i); err != nil {
			return 0, err
		}
	}
	for step /= 2; step > 0; step /= 2 {
		center := best
		for _, i := range [2]int{center - step, center + step} {
			if i < 0 || i >= n {
				continue
			}
			if err := try(i); err != nil {
				return 0, err
			}
		}
	}
	return best, nil
}

// firstRound returns the spacing and the first index of the first round, which is centered on
// the grid.
func firstRound(n int) (step, start int) {
	step = 1
	for n/step > coarse {
		step *= 2
	}
	return step, (n - 1) % step / 2
}

// searchSteps returns the maximum number of evaluations of a search over n points.
func searchSteps(n int) int {
	step, start := firstRound(n)
	steps := (n - start + step - 1) / step
	for ; step > 1; step /= 2 {
		steps += 2
	}
	return steps
}

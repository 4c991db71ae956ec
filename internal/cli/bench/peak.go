package bench

import (
	"context"
	"sync"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/kernel"
)

// peakRow is the machine's own limit.
type peakRow struct {
	Bench   string  `json:"bench"` // peak
	Set     string  `json:"engine"`
	Threads int     `json:"threads"`
	Peak    float64 `json:"peak_gflops"`
}

// measurePeaks measures each instruction set's fused multiply-adds on each
// number of threads.
func measurePeaks(ctx context.Context, sets []string, threads []int, d time.Duration) ([]peakRow, error) {
	var rows []peakRow
	for _, set := range sets {
		for _, n := range threads {
			flops, err := sideBySide(n, func(int) (float64, error) { return kernel.MeasurePeak(set, d) })
			if err != nil {
				return nil, err
			}
			rows = append(rows, peakRow{"peak", set, n, flops / 1e9})
			if ctx.Err() != nil {
				return rows, ctx.Err()
			}
		}
	}
	return rows, nil
}

// fmaRate returns the operations per second of the threads together, as the mean over the time: other programs slow
// down both this mean and an engine's burst, so that the ratio is fair on a busy machine too.
func fmaRate(set string, threads int, d time.Duration) (float64, error) {
	return sideBySide(threads, func(int) (float64, error) {
		bursts, inverse := 0, 0.0 // all bursts do as many operations
		for begin := time.Now(); bursts == 0 || time.Since(begin) < d; bursts++ {
			rate, err := kernel.MeasurePeak(set, 0)
			if err != nil {
				return 0, err
			}
			inverse += 1 / rate
		}
		return float64(bursts) / inverse, nil
	})
}

// sideBySide is the sum of the results of f on each thread.
func sideBySide(threads int, f func(thread int) (float64, error)) (float64, error) {
	rates, errs := make([]float64, threads), make([]error, threads)
	var wg sync.WaitGroup
	for i := range threads {
		wg.Go(func() { rates[i], errs[i] = f(i) })
	}
	wg.Wait()
	sum := 0.0
	for i, r := range rates {
		if errs[i] != nil {
			return 0, errs[i]
		}
		sum += r
	}
	return sum, nil
}

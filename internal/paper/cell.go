package paper

import (
	"fmt"
	"math"

	"github.com/eusn-stream/eusn-stream/internal/energy"
)

// Cell is the result of one model on one data set.
type Cell struct {
	Dataset string `json:"dataset"`
	Model   string `json:"model"`
	Missing string `json:"missing,omitempty"` // reason for no result; all other fields are zero then

	// Of the search; zero for a bank.
	Selected       int         `json:"selected"` // index of the configuration
	Config         Scales      `json:"config"`   // with the seed of the search
	Validation     Share       `json:"validation,omitzero"`
	Configurations int         `json:"configurations"`           // number of configurations tried
	Tied           []int       `json:"tied,omitempty"`           // later configurations with the same validation accuracy
	AtPaper        Share       `json:"at_paper_units,omitzero"`  // the best configuration with the paper's number of units
	Searched       float64     `json:"search_seconds,omitempty"` // of all trials, one thread each
	SearchEnergy   energy.Used `json:"search_energy,omitzero"`   // of all trials
	Training       Training    `json:"training,omitzero"`        // of trained models

	// Of the draws.
	Draws      int         `json:"draws"`
	Accuracy   float64     `json:"accuracy"`  // mean over the draws
	Deviation  float64     `json:"deviation"` // population standard deviation over the draws, as numpy.std
	Parameters int         `json:"parameters"`
	Learned    int         `json:"learned"`
	Seconds    float64     `json:"seconds"`         // training and test of one draw, mean
	Energy     energy.Used `json:"energy,omitzero"` // of one draw, mean
	Command    string      `json:"command,omitempty"`
}

// choose returns the first of the best trials.
func (st *Results) choose(dataset, model string, configurations int) (Trial, error) {
	best := Trial{Index: -1}
	for i := range configurations {
		t, ok := st.trials[key{dataset, model, i}]
		if !ok {
			return best, fmt.Errorf("bench: %s: data set %q, %s: configuration %d has no result", st.path, dataset, model, i)
		}
		if best.Index < 0 || t.Validation.Correct > best.Validation.Correct {
			best = t
		}
	}
	return best, nil
}

// cell summarizes the stored results.
func (st *Results) cell(dataset, model string, plan Plan) (Cell, error) {
	c := Cell{Dataset: dataset, Model: model, Configurations: plan.Configurations, Draws: plan.Draws}
	var searching, drawing []energy.Used
	if plan.Configurations > 0 {
		best, err := st.choose(dataset, model, plan.Configurations)
		if err != nil {
			return c, err
		}
		c.Selected, c.Config, c.Validation, c.Training = best.Index, best.Config, best.Validation, best.Training
		paper, known := Paper(dataset, model)
		for i := range plan.Configurations {
			t := st.trials[key{dataset, model, i}]
			c.Searched += t.Seconds
			searching = append(searching, t.Energy)
			if i > best.Index && t.Validation == best.Validation {
				c.Tied = append(c.Tied, i)
			}
			if known && t.Config.Units == paper.Units && (c.AtPaper.Of == 0 || t.Validation.Correct > c.AtPaper.Correct) {
				c.AtPaper = t.Validation
			}
		}
	}
	var sum float64
	for i := range c.Draws {
		d, ok := st.draws[key{dataset, model, i}]
		if !ok {
			return c, fmt.Errorf("bench: %s: data set %q, %s: draw %d has no result", st.path, dataset, model, i)
		}
		a := d.Test.Accuracy()
		sum += a
		c.Seconds += d.Seconds / float64(c.Draws)
		c.Parameters, c.Learned = d.Parameters, d.Learned
		drawing = append(drawing, d.Energy)
	}
	c.SearchEnergy, c.Energy = energy.Sum(searching), energy.Sum(drawing).Over(c.Draws)
	n := float64(c.Draws)
	c.Accuracy = sum / n
	var dev float64
	for i := range c.Draws {
		e := st.draws[key{dataset, model, i}].Test.Accuracy() - c.Accuracy
		dev += float64(e * e)
	}
	c.Deviation = math.Sqrt(dev / n)
	return c, nil
}

// DrawMeans returns the mean accuracies of cells, one for each draw present in all cells:
// the means vary only with the weights.
func (st *Results) DrawMeans(cells []Cell) (means []float64) {
	draws := 0
	for i, c := range cells {
		if i == 0 || c.Draws < draws {
			draws = c.Draws
		}
	}
	for i := range draws {
		sum := 0.0
		for _, c := range cells {
			sum += st.draws[key{c.Dataset, c.Model, i}].Test.Accuracy()
		}
		means = append(means, sum/float64(len(cells)))
	}
	return means
}

// MeanDeviation returns the mean of numbers and the population standard deviation.
func MeanDeviation(numbers []float64) (mean, deviation float64) {
	n := float64(len(numbers))
	for _, v := range numbers {
		mean += v / n
	}
	squares := 0.0
	for _, v := range numbers {
		squares += float64((v - mean) * (v - mean))
	}
	return mean, math.Sqrt(squares / n)
}

package paper

import (
	"slices"

	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// Data identifies a data set in a results file.
type Data struct {
	Dataset  string `json:"dataset"`
	Train    string `json:"train"` // offline.Dataset.Fingerprint of the part
	Test     string `json:"test"`
	Series   int    `json:"series"`  // labeled series of the training part
	Asked    int    `json:"asked"`   // labeled series of the test part
	Unknown  int    `json:"unknown"` // test series of classes without a training series, which count as wrong
	Channels int    `json:"channels"`
	Classes  int    `json:"classes"` // classes with a training series

	// Class of each labeled test series in the archive's order, counted from 0 among the
	// classes with a training series in the data set's order; -1: other classes. Absent
	// for more than maxStored series.
	Truth []int `json:"truth,omitempty"`
}

// maxStored is the largest number of test series whose classes are stored, so that lines
// stay below maxLine.
const maxStored = 1 << 20

func storable(classes []int) []int {
	if len(classes) > maxStored {
		return nil
	}
	return classes
}

// describe returns the description of a data set in a results file.
func describe(d *archive.Dataset) Data {
	p := problem{}
	index := p.classesOf(d)
	data := Data{
		Dataset: d.Name, Train: d.Fingerprint(archive.Train), Test: d.Fingerprint(archive.Test),
		Series: len(labelled(d, archive.Train)), Channels: len(d.Channels), Classes: len(p.classes),
	}
	for _, i := range labelled(d, archive.Test) {
		class := index[d.Series[i].Label]
		data.Asked++
		if class < 0 {
			data.Unknown++
		}
		data.Truth = append(data.Truth, class)
	}
	data.Truth = storable(data.Truth)
	return data
}

// bankClasses are the predicted classes of the labeled test series, counted as in
// Data.Truth.
func bankClasses(d *archive.Dataset, ev *offline.Evaluation) (predicted []int) {
	p := problem{}
	p.classesOf(d)
	index := make([]int, len(ev.Classes))
	for c, name := range ev.Classes {
		index[c] = slices.Index(p.classes, name)
	}
	for _, q := range ev.Predictions {
		if q.Label >= 0 {
			predicted = append(predicted, index[q.Class])
		}
	}
	return predicted
}

package paper

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

package archive

// Data is labeled data, for training and evaluating a model: a *Dataset, or RecordingFiles.
type Data interface{ data() }

func (*Dataset) data()       {}
func (RecordingFiles) data() {}

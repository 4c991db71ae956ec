package archive

// Data is labelled data, for training and evaluating a model: a *Dataset, or RecordingFiles.
type Data interface{ data() }

func (*Dataset) data()       {}
func (RecordingFiles) data() {}

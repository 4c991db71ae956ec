// Package paper reruns the experiments of the paper (C. Gallicchio, "Euler
// State Networks: Non-dissipative Reservoir Computing", arXiv 2203.09382) on
// data sets of package offline: data sets x reservoirs x random search x draws.
//
// # Protocols
//
// paper-exact is how the published experiments were run. The training part is
// split 67/33 again, stratified, exactly as scikit-learn's train_test_split
// with random_state 42 splits it (see stratify). The 200 configurations of each
// reservoir are the published ones, made again from NumPy's legacy generator
// seeded with 42 (see Configurations). On MNIST the published searches ended after
// ten hours, so the lists of ESN and R-ESN are different there
// (Settings.ListLength). Series that are shorter than the longest of both parts
// get zeros in front, which go through the network. The readout is a ridge
// classifier with alpha 1 on the raw last state, fitted to the 67 %. The first of
// the configurations with the best validation accuracy is drawn again ten times.
// Each draw is fitted to the 67 % and predicts the test part.
//
// best searches the same way, but every series is as long as it is, alpha is
// chosen by exact leave-one-out, features are divided by their deviation
// before the penalty, and the draws are fitted to the whole training part.
//
// bank searches nothing: reservoir.DefaultBank, drawn ten times, alpha and kind
// of readout, ridge classifier or linear discriminant, by leave-one-out on the
// training part.
//
// compare is the same for several banks, each under its name (reservoir.Bank), which go
// into one results file. A draw notes the recipe that its bank's name meant; draws
// of a recipe that has changed since are made again.
//
// DeepESN (the paper's journal version) is several layers of leaky ESNs. The input
// of a layer is the state of the layer before at the same sample; the readout
// reads the last states of all layers. All layers have one configuration; they
// share the units evenly, and the first gets the rest. Layer l is drawn with the
// seed of the trial or draw + l*2^32.
//
// The models that are trained as a whole (package internal/offline/baseline) are
// searched and drawn by the first two protocols: fitted to the 67 %, stopped when
// the loss over the validation part has not fallen for 50 epochs or after
// Plan.Epochs, then they predict the test part. paper-exact pads as above and keeps
// the last weights; best does not pad, and takes the weights of the smallest loss.
// Their configurations, too, are the published ones (see trainables), on demand
// without those of a small learning rate (Settings.LeastRate). A search
// takes them in turn until its trials have used Plan.Budget. A trial may use the
// time that is left by the trials that ended before it began, so n threads may use
// up to n budgets. Only the first configurations count, up to the first one that
// did not finish; a search of this fixed number depends on no clock. If none
// finished, the cell says so (Cell.Missing) and the other models continue.
//
// No protocol looks at the test part before the draws.
//
// SyntheticMemory and Memory make the data of the long-term memorisation tasks
// (Fig. 4). The experiments on them are the same as on any other data.
//
// # What is not the paper's
//
// The output of trained models of more than two classes is a softmax; the
// published program has a sigmoid there before the same loss.
//
// The weights: the published ones come from another generator. Ours are those
// of package reservoir; configuration i of a search is drawn with seed
// Settings.Seed + i, draw i with Seed + 10000 + i, draw i of a bank with
// Seed + i. Readouts are solved in float64; the published ones were in float32.
//
// Classes without a training series cannot be learnt, and count as wrong in the
// test part (Data.Unknown). Series without a label are left out. The paper's
// protocols have no rule for a missing value, so they refuse it; the bank's fill
// it as offline.Retrain does.
//
// # Time and energy
//
// Seconds are the wall clock of a trial or draw, on the one thread that does it
// (the bank's: on all). Energy, in Wh, is that of package internal/energy: the
// counts of the machine's counters during that time, divided evenly among all that
// ran at the same time; in total, and above the power at rest, which is measured
// before a run's first trial. If there is a counter, models take turns, so that
// their energy can be separated. A cell's energy is known if it is known for all
// its trials, or draws; otherwise the field is absent.
//
// # Results file
//
// One line of JSON per result, written when the result is there; each is an
// object with one field, which says what it is:
//
//	{"settings": Settings}   first line, once
//	{"origin": Origin}       where, when and with what; before a run's first result
//	{"data": Data}           once per data set, before its results
//	{"metering": Metering}   before the first trial of a run that measures energy
//	{"trial": Trial}         a configuration of a search
//	{"draw": Draw}           a drawing of the chosen configuration
//	{"cell": Cell}           a model on a data set, after all its draws
//
// Data has the classes of the test series and a draw those it predicts, so that
// every accuracy can be counted again. ReadResults does so, and compares cells
// with their trials and draws.
//
// Lines come in the order in which threads finish. Apart from that, from
// origins, metering and fields that end in seconds or energy, a file does not
// depend on threads, engines, or interruptions. On other architectures than amd64
// readouts may differ in their last bits (see package readout), and trained models
// in more. How many trials a budget allows depends on the machine. If a crash left
// a last line without its end, Resume removes it. Cells follow from trials and
// draws. If two lines are about the same thing, the later one counts: a file may be
// resumed with a larger Plan, and a longer search may choose another configuration.
//
// # Files
//
//   - run.go: runs models on data sets and stores each result
//   - jobs.go: runs jobs on all threads, the largest first
//   - protocol.go: defines the protocols and settings of the experiments
//   - banks.go: defines the training options of banks
//   - scales.go: defines the hyper-parameters of the paper's networks
//   - search.go: lists the random configurations of the paper's search
//   - split.go: splits training data as the published program does
//   - numpy.go: computes the random numbers of NumPy
//   - problem.go: prepares a data set for the networks of the paper
//   - data.go: describes a data set in a results file
//   - memory.go: creates the memorization tasks
//   - trial.go: computes one configuration on a network
//   - deep.go: computes networks in layers
//   - walk.go: advances layered networks sample by sample
//   - trained.go: trains and searches the compared trained networks
//   - work.go: estimates the work of a run
//   - work_trained.go: estimates the work of trainings
//   - cost.go: measures time and energy
//   - store.go: appends results to a results file
//   - results.go: reads a results file and checks its consistency
//   - cell.go: sums up the trials of a model on a data set
//   - lock.go: locks a results file
//   - paper.go: holds the published figures of the paper
//   - table.go: prints results next to the published figures
package paper

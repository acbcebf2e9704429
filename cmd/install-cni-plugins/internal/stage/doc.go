// Package stage puts the plugins of a payload into a node's CNI bin directory, and takes them out
// again. It is the most careful writer of that directory it can be: a file that is already right is
// not touched, every other one is replaced by the rename of a complete file, what was there before
// is kept, and what is not a plugin of ours stays.
//
// The package prints nothing and reads no environment. What happened is in the returned reports;
// an error means that the operation could not be carried out at all.
package stage

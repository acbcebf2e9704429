// Package talosimage finds out what a node image ships: it resolves what users name (a version, a file, an
// image) and reads evidence out of imager and installer images. Images are untrusted: everything read from
// them is bounded in memory, in size and in number, and nothing is executed.
package talosimage

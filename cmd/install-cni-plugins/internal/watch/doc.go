// Package watch keeps the plugins of a payload in a node's CNI bin directory. It notices what goes
// missing there and puts it back, by package stage with all its care; it reports what was altered;
// and it answers for all of that over a few lines of HTTP.
//
// At rest it costs nothing: it sleeps until inotify or the clock wakes it, and then looks at the
// files' inodes. A file is read only where that look says that it may have changed.
package watch

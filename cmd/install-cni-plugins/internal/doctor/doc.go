// Package doctor says why a CNI attachment does not work on a node, and what to do. It reads
// configurations, directories and programs as the container runtime and Multus would, and changes
// nothing. Everything it reads may be hostile: sizes, depths and times are bounded.
package doctor

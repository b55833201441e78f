// Package registry keeps the generated messages out of protobuf's global registries.
//
// A program may have stubs of its own, generated from the same proto. Two packages that register the same names panic before
// main starts. So the messages of this library are registered nowhere: they have their names, are encoded and packed into an
// Any as usual, and only a look-up by name (anypb.UnmarshalNew, server reflection) does not find them.
package registry

import (
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Files finds the imports of a file in the global registry, and registers nothing.
type Files struct{}

// FindFileByPath looks in the global registry.
func (Files) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	return protoregistry.GlobalFiles.FindFileByPath(path)
}

// FindDescriptorByName looks in the global registry.
func (Files) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	return protoregistry.GlobalFiles.FindDescriptorByName(name)
}

// RegisterFile does nothing.
func (Files) RegisterFile(protoreflect.FileDescriptor) error { return nil }

// Types registers nothing.
type Types struct{}

// RegisterMessage does nothing.
func (Types) RegisterMessage(protoreflect.MessageType) error { return nil }

// RegisterEnum does nothing.
func (Types) RegisterEnum(protoreflect.EnumType) error { return nil }

// RegisterExtension does nothing.
func (Types) RegisterExtension(protoreflect.ExtensionType) error { return nil }

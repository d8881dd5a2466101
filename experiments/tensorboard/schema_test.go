package tensorboard

import (
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	_ "google.golang.org/protobuf/types/known/structpb"
)

// schema is what this test needs of TensorFlow's event.proto, summary.proto and
// tensor.proto and of the hparams plugin's messages, as a descriptor: the
// protobuf library reads files by it, knowing nothing of the writer.
const schema = `
name: "tensorboard.proto" syntax: "proto3" dependency: "google/protobuf/struct.proto"
message_type { name: "Event"
  field { name: "wall_time" number: 1 type: TYPE_DOUBLE label: LABEL_OPTIONAL }
  field { name: "step" number: 2 type: TYPE_INT64 label: LABEL_OPTIONAL }
  field { name: "file_version" number: 3 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "summary" number: 5 type: TYPE_MESSAGE type_name: ".Summary" label: LABEL_OPTIONAL }
  field { name: "session_log" number: 7 type: TYPE_MESSAGE type_name: ".SessionLog" label: LABEL_OPTIONAL } }
message_type { name: "SessionLog"
  field { name: "status" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL } }
message_type { name: "Summary"
  field { name: "value" number: 1 type: TYPE_MESSAGE type_name: ".Value" label: LABEL_REPEATED } }
message_type { name: "Value"
  field { name: "tag" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "simple_value" number: 2 type: TYPE_FLOAT label: LABEL_OPTIONAL }
  field { name: "histo" number: 5 type: TYPE_MESSAGE type_name: ".HistogramProto" label: LABEL_OPTIONAL }
  field { name: "tensor" number: 8 type: TYPE_MESSAGE type_name: ".TensorProto" label: LABEL_OPTIONAL }
  field { name: "metadata" number: 9 type: TYPE_MESSAGE type_name: ".SummaryMetadata" label: LABEL_OPTIONAL } }
message_type { name: "SummaryMetadata"
  field { name: "plugin_data" number: 1 type: TYPE_MESSAGE type_name: ".PluginData" label: LABEL_OPTIONAL } }
message_type { name: "PluginData"
  field { name: "plugin_name" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "content" number: 2 type: TYPE_BYTES label: LABEL_OPTIONAL } }
message_type { name: "HistogramProto"
  field { name: "min" number: 1 type: TYPE_DOUBLE label: LABEL_OPTIONAL }
  field { name: "max" number: 2 type: TYPE_DOUBLE label: LABEL_OPTIONAL }
  field { name: "num" number: 3 type: TYPE_DOUBLE label: LABEL_OPTIONAL }
  field { name: "sum" number: 4 type: TYPE_DOUBLE label: LABEL_OPTIONAL }
  field { name: "sum_squares" number: 5 type: TYPE_DOUBLE label: LABEL_OPTIONAL }
  field { name: "bucket_limit" number: 6 type: TYPE_DOUBLE label: LABEL_REPEATED options { packed: true } }
  field { name: "bucket" number: 7 type: TYPE_DOUBLE label: LABEL_REPEATED options { packed: true } } }
message_type { name: "TensorProto"
  field { name: "dtype" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL }
  field { name: "tensor_shape" number: 2 type: TYPE_MESSAGE type_name: ".TensorShapeProto" label: LABEL_OPTIONAL }
  field { name: "string_val" number: 8 type: TYPE_BYTES label: LABEL_REPEATED } }
message_type { name: "TensorShapeProto"
  field { name: "dim" number: 2 type: TYPE_MESSAGE type_name: ".Dim" label: LABEL_REPEATED } }
message_type { name: "Dim"
  field { name: "size" number: 1 type: TYPE_INT64 label: LABEL_OPTIONAL } }
message_type { name: "HParamsPluginData"
  field { name: "version" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL }
  field { name: "session_start_info" number: 3 type: TYPE_MESSAGE type_name: ".SessionStartInfo" label: LABEL_OPTIONAL }
  field { name: "session_end_info" number: 4 type: TYPE_MESSAGE type_name: ".SessionEndInfo" label: LABEL_OPTIONAL } }
message_type { name: "SessionStartInfo"
  nested_type { name: "HparamsEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_MESSAGE type_name: ".google.protobuf.Value" label: LABEL_OPTIONAL } }
  field { name: "hparams" number: 1 type: TYPE_MESSAGE type_name: ".SessionStartInfo.HparamsEntry" label: LABEL_REPEATED }
  field { name: "group_name" number: 4 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "start_time_secs" number: 5 type: TYPE_DOUBLE label: LABEL_OPTIONAL } }
message_type { name: "SessionEndInfo"
  field { name: "status" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL }
  field { name: "end_time_secs" number: 2 type: TYPE_DOUBLE label: LABEL_OPTIONAL } }
`

// decoder makes messages of the schema.
type decoder struct {
	t    *testing.T
	file protoreflect.FileDescriptor
}

func newDecoder(t *testing.T) decoder {
	var d descriptorpb.FileDescriptorProto
	if err := prototext.Unmarshal([]byte(schema), &d); err != nil {
		t.Fatal(err)
	}
	f, err := protodesc.NewFile(&d, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	return decoder{t, f}
}

// text is a message as protobuf text. A field the schema does not know fails
// the test.
func (d decoder) text(name string, b []byte) string {
	d.t.Helper()
	m := dynamicpb.NewMessage(d.file.Messages().ByName(protoreflect.Name(name)))
	if err := proto.Unmarshal(b, m); err != nil {
		d.t.Fatal(err)
	}
	d.known(m)
	return prototext.MarshalOptions{Multiline: false}.Format(m)
}

func (d decoder) known(m protoreflect.Message) {
	if len(m.GetUnknown()) > 0 {
		d.t.Errorf("%s has unknown fields: %x", m.Descriptor().Name(), m.GetUnknown())
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { d.known(v.Message()); return true })
		case f.IsList() && f.Message() != nil:
			for i := range v.List().Len() {
				d.known(v.List().Get(i).Message())
			}
		case f.Message() != nil:
			d.known(v.Message())
		}
		return true
	})
}

package tensorboard

import (
	"maps"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers, from event.proto, summary.proto, tensor.proto, hparams' api.proto
// and plugin_data.proto, and struct.proto.
const (
	eventWallTime, eventStep, eventVersion, eventSummary, eventSession = 1, 2, 3, 5, 7

	sessionStatus, sessionStart = 1, 1

	summaryValue                                                  = 1
	valueTag, valueSimple, valueHisto, valueTensor, valueMetadata = 1, 2, 5, 8, 9
	metadataPlugin, pluginName, pluginContent                     = 1, 1, 2

	histoMin, histoMax, histoNum, histoSum, histoSquares, histoLimits, histoBuckets = 1, 2, 3, 4, 5, 6, 7

	tensorType, tensorShape, tensorStrings = 1, 2, 8
	shapeDim, dimSize, typeString          = 2, 1, 7

	hparamsStart, hparamsEnd        = 3, 4
	startParams, startGroup, startT = 1, 4, 5
	endStatus, endT                 = 1, 2
	mapKey, mapValue                = 1, 2
	anyNumber, anyString, anyBool   = 2, 3, 4
)

func appendVersion(b []byte, at time.Time) []byte {
	return appendString(appendDouble(b, eventWallTime, seconds(at)), eventVersion, "brain.Event:2")
}

func appendRestart(b []byte, at time.Time, step int) []byte {
	b = appendStamp(b, at, step)
	return appendMessage(b, eventSession, func(b []byte) []byte { return appendInt(b, sessionStatus, sessionStart) })
}

func appendEvent(b []byte, at time.Time, step int, values []Value) []byte {
	return appendMessage(appendStamp(b, at, step), eventSummary, func(b []byte) []byte {
		for _, v := range values {
			b = appendMessage(b, summaryValue, func(b []byte) []byte { return v.append(appendString(b, valueTag, v.tag)) })
		}
		return b
	})
}

func appendStamp(b []byte, at time.Time, step int) []byte {
	return appendInt(appendDouble(b, eventWallTime, seconds(at)), eventStep, uint64(int64(step)))
}

func appendScalar(b []byte, v float32) []byte {
	b = protowire.AppendTag(b, valueSimple, protowire.Fixed32Type)
	return protowire.AppendFixed32(b, math.Float32bits(v))
}

func appendHistogram(b []byte, h histogram) []byte {
	return appendMessage(b, valueHisto, func(b []byte) []byte {
		b = appendDouble(b, histoMin, h.min)
		b = appendDouble(b, histoMax, h.max)
		b = appendDouble(b, histoNum, h.num)
		b = appendDouble(b, histoSum, h.sum)
		b = appendDouble(b, histoSquares, h.squares)
		b = appendDoubles(b, histoLimits, h.limits)
		return appendDoubles(b, histoBuckets, h.buckets)
	})
}

func appendText(b []byte, text string) []byte {
	b = appendMessage(b, valueTensor, func(b []byte) []byte {
		b = appendInt(b, tensorType, typeString)
		b = appendMessage(b, tensorShape, func(b []byte) []byte {
			return appendMessage(b, shapeDim, func(b []byte) []byte { return appendInt(b, dimSize, 1) })
		})
		return appendString(b, tensorStrings, text)
	})
	return appendPlugin(b, "text", func(b []byte) []byte { return b })
}

func appendBegin(b []byte, group string, params map[string]any, at time.Time) []byte {
	return appendPlugin(b, "hparams", func(b []byte) []byte {
		return appendMessage(b, hparamsStart, func(b []byte) []byte {
			for _, k := range slices.Sorted(maps.Keys(params)) {
				b = appendParam(b, k, params[k])
			}
			return appendDouble(appendString(b, startGroup, group), startT, seconds(at))
		})
	})
}

// appendParam appends an entry of the map of hyperparameters.
func appendParam(b []byte, name string, v any) []byte {
	var value func([]byte) []byte
	switch v := v.(type) {
	case float64:
		value = func(b []byte) []byte { return appendDouble(b, anyNumber, v) }
	case string:
		value = func(b []byte) []byte { return appendString(b, anyString, v) }
	case bool:
		value = func(b []byte) []byte { return appendInt(b, anyBool, protowire.EncodeBool(v)) }
	default:
		return b
	}
	return appendMessage(b, startParams, func(b []byte) []byte {
		return appendMessage(appendString(b, mapKey, name), mapValue, value)
	})
}

func appendEnd(b []byte, o Outcome, at time.Time) []byte {
	return appendPlugin(b, "hparams", func(b []byte) []byte {
		return appendMessage(b, hparamsEnd, func(b []byte) []byte {
			return appendDouble(appendInt(b, endStatus, uint64(o)), endT, seconds(at))
		})
	})
}

// appendPlugin appends the metadata that hand a value to a plugin.
func appendPlugin(b []byte, name string, content func([]byte) []byte) []byte {
	return appendMessage(b, valueMetadata, func(b []byte) []byte {
		return appendMessage(b, metadataPlugin, func(b []byte) []byte {
			return appendMessage(appendString(b, pluginName, name), pluginContent, content)
		})
	})
}

func seconds(t time.Time) float64 { return float64(t.Unix()) + float64(t.Nanosecond())/1e9 }

func appendMessage(b []byte, field protowire.Number, body func([]byte) []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), body(nil))
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

func appendInt(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

func appendDouble(b []byte, field protowire.Number, v float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), math.Float64bits(v))
}

func appendDoubles(b []byte, field protowire.Number, vs []float64) []byte {
	return appendMessage(b, field, func(b []byte) []byte {
		for _, v := range vs {
			b = protowire.AppendFixed64(b, math.Float64bits(v))
		}
		return b
	})
}

package coin_test

import (
	"testing"

	"example.org/coin/coin"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/compress/compresstest"
)

// The whole conformance suite, in three combinations.
func TestCoin(t *testing.T) {
	for _, f := range []compress.Family{
		coin.Coin{P: 0.75},
		compress.Families.MustParse("coin"),
		compress.Families.MustParse("feedback(coin(p=0.8))"),
	} {
		t.Run(compress.Spec(f), func(t *testing.T) { compresstest.Family(t, f) })
	}
}

// Any bytes must be refused or decoded.
func FuzzDecode(f *testing.F) {
	f.Add(uint16(65), []byte{0, 0, 128, 63})
	f.Fuzz(func(t *testing.T, d uint16, payload []byte) {
		if err := compresstest.Decode(coin.Coin{P: 0.5}, int(d)%2048, payload); err != nil {
			t.Error(err)
		}
	})
}

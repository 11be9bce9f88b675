package chacha20poly1305

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

// The test vectors of RFC 8439 and of draft-irtf-cfrg-xchacha-03.

func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		panic(err)
	}
	return b
}

// count returns n bytes that count up from first.
func count(first byte, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = first + byte(i)
	}
	return hex.EncodeToString(b)
}

func zeros(n int) string { return strings.Repeat("00", n) }

const (
	sunscreen = "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it."
	jabber    = "'Twas brillig, and the slithy toves\nDid gyre and gimble in the wabe:\nAll mimsy were the borogoves,\nAnd the mome raths outgrabe."
	ietf      = "Any submission to the IETF intended by the Contributor for publication as all or part of an IETF Internet-Draft or RFC " +
		"and any statement made within the context of an IETF activity is considered an \"IETF Contribution\". Such statements include " +
		"oral statements in IETF sessions, as well as written and electronic communications made at any time or place, which are addressed to"
	dhole = "The dhole (pronounced \"dole\") is also known as the Asiatic wild dog, red dog, and whistling dog. It is about the size of a German " +
		"shepherd but looks more like a long-legged fox. This highly elusive and skilled jumper is classified with wolves, coyotes, jackals, " +
		"and foxes in the taxonomic family Canidae."

	jabberKey = "1c9240a5eb55d38af333888604f6b5f0473917c1402b80099dca5cbc207075c0"
)

var chachaVectors = []struct {
	name       string
	key, nonce string
	counter    uint32
	plaintext  string // "" for as many zeros as there is ciphertext
	ciphertext string
}{
	{"§2.3.2", count(0, 32), "000000090000004a00000000", 1, "", `
		10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e
		d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e`},
	{"§2.4.2", count(0, 32), "000000000000004a00000000", 1, sunscreen, `
		6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0b
		f91b65c5524733ab8f593dabcd62b3571639d624e65152ab8f530c359f0861d8
		07ca0dbf500d6a6156a38e088a22b65e52bc514d16ccf806818ce91ab7793736
		5af90bbf74a35be6b40b8eedf2785e42874d`},
	{"§A.1 #1, A.2 #1", zeros(32), zeros(12), 0, "", `
		76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7
		da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586`},
	{"§A.1 #2", zeros(32), zeros(12), 1, "", `
		9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed
		29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f`},
	{"§A.1 #3", zeros(31) + "01", zeros(12), 1, "", `
		3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a
		8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0`},
	{"§A.1 #4", "00ff" + zeros(30), zeros(12), 2, "", `
		72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca
		13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096`},
	{"§A.1 #5", zeros(32), zeros(11) + "02", 0, "", `
		c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7
		8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d`},
	{"§A.2 #2", zeros(31) + "01", zeros(11) + "02", 1, ietf, `
		a3fbf07df3fa2fde4f376ca23e82737041605d9f4f4f57bd8cff2c1d4b7955ec
		2a97948bd3722915c8f3d337f7d370050e9e96d647b7c39f56e031ca5eb6250d
		4042e02785ececfa4b4bb5e8ead0440e20b6e8db09d881a7c6132f420e527950
		42bdfa7773d8a9051447b3291ce1411c680465552aa6c405b7764d5e87bea85a
		d00f8449ed8f72d0d662ab052691ca66424bc86d2df80ea41f43abf937d3259d
		c4b2d0dfb48a6c9139ddd7f76966e928e635553ba76c5c879d7b35d49eb2e62b
		0871cdac638939e25e8a1e0ef9d5280fa8ca328b351c3c765989cbcf3daa8b6c
		cc3aaf9f3979c92b3720fc88dc95ed84a1be059c6499b9fda236e7e818b04b0b
		c39c1e876b193bfe5569753f88128cc08aaa9b63d1a16f80ef2554d7189c411f
		5869ca52c5b83fa36ff216b9c1d30062bebcfd2dc5bce0911934fda79a86f6e6
		98ced759c3ff9b6477338f3da4f9cd8514ea9982ccafb341b2384dd902f3d1ab
		7ac61dd29c6f21ba5b862f3730e37cfdc4fd806c22f221`},
	{"§A.2 #3", jabberKey, zeros(11) + "02", 42, jabber, `
		62e6347f95ed87a45ffae7426f27a1df5fb69110044c0d73118effa95b01e5cf
		166d3df2d721caf9b21e5fb14c616871fd84c54f9d65b283196c7fe4f60553eb
		f39c6402c42234e32a356b3e764312a61a5532055716ead6962568f87d3f3f77
		04c6a8d1bcd1bf4d50d6154b6da731b187b58dfd728afa36757a797ac188d1`},
}

func TestChaCha20Vectors(t *testing.T) { each(t, testChaCha20Vectors) }

func testChaCha20Vectors(t *testing.T) {
	for _, v := range chachaVectors {
		want := unhex(v.ciphertext)
		plaintext := []byte(v.plaintext)
		if v.plaintext == "" {
			plaintext = make([]byte, len(want))
		}
		var key [8]uint32
		setKey(&key, (*[KeySize]byte)(unhex(v.key)))
		iv := nonceWords((*[NonceSize]byte)(unhex(v.nonce)))
		iv[0] = v.counter
		got := make([]byte, len(plaintext))
		keyStream(nil, got, plaintext, &key, &iv)
		if !bytes.Equal(got, want) {
			t.Errorf("%s:\n got %x\nwant %x", v.name, got, want)
		}
	}
}

func TestHChaCha20Vector(t *testing.T) { each(t, testHChaCha20Vector) }

func testHChaCha20Vector(t *testing.T) { // draft §2.2.1
	var key, got, want [8]uint32
	setKey(&key, (*[KeySize]byte)(unhex(count(0, 32))))
	setKey(&want, (*[KeySize]byte)(unhex("82413b4227b27bfed30e42508a877d73a0f9e4d58a74a853c12ec41326d3ecdc")))
	hChaCha20(&got, &key, (*[16]byte)(unhex("000000090000004a0000000031415927")))
	if got != want {
		t.Errorf("got %08x, want %08x", got, want)
	}
}

func TestXChaCha20Vector(t *testing.T) { each(t, testXChaCha20Vector) }

func testXChaCha20Vector(t *testing.T) { // draft §A.3.2, block counters 0 and 1
	a := new(xaead)
	setKey(&a.key, (*[KeySize]byte)(unhex(count(0x80, 32))))
	for counter, want := range []string{`
		4559abba4e48c16102e8bb2c05e6947f50a786de162f9b0b7e592a9b53d0d4e9
		8d8d6410d540a1a6375b26d80dace4fab52384c731acbf16a5923c0c48d3575d
		4d0d2c673b666faa731061277701093a6bf7a158a8864292a41c48e3a9b4c0da
		ece0f8d98d0d7e05b37a307bbb66333164ec9e1b24ea0d6c3ffddcec4f68e744
		3056193a03c810e11344ca06d8ed8a2bfb1e8d48cfa6bc0eb4e2464b74814240
		7c9f431aee769960e15ba8b96890466ef2457599852385c661f752ce20f9da0c
		09ab6b19df74e76a95967446f8d0fd415e7bee2a12a114c20eb5292ae7a349ae
		577820d5520a1f3fb62a17ce6a7e68fa7c79111d8860920bc048ef43fe84486c
		cb87c25f0ae045f0cce1e7989a9aa220a28bdd4827e751a24a6d5c62d790a663
		93b93111c1a55dd7421a10184974c7c5`, `
		7d0a2e6b7f7c65a236542630294e063b7ab9b555a5d5149aa21e4ae1e4fbce87
		ecc8e08a8b5e350abe622b2ffa617b202cfad72032a3037e76ffdcdc4376ee05`} {
		want := unhex(want)
		var subkey [8]uint32
		iv := a.derive(&subkey, (*[NonceSizeX]byte)(unhex(count(0x40, 23)+"58")))
		iv[0] = uint32(counter)
		got := make([]byte, len(want))
		keyStream(nil, got, []byte(dhole)[:len(want)], &subkey, &iv)
		if !bytes.Equal(got, want) {
			t.Errorf("counter %d:\n got %x\nwant %x", counter, got, want)
		}
	}
}

var macVectors = []struct{ name, key, message, tag string }{
	{"§2.5.2", "85d6be7857556d337f4452fe42d506a80103808afb0db2fd4abff6af4149f51b",
		hex.EncodeToString([]byte("Cryptographic Forum Research Group")), "a8061dc1305136c6c22b8baf0c0127a9"},
	{"§A.3 #1", zeros(32), zeros(64), zeros(16)},
	{"§A.3 #2", zeros(16) + "36e5f6b5c5e06070f0efca96227a863e", hex.EncodeToString([]byte(ietf)), "36e5f6b5c5e06070f0efca96227a863e"},
	{"§A.3 #3", "36e5f6b5c5e06070f0efca96227a863e" + zeros(16), hex.EncodeToString([]byte(ietf)), "f3477e7cd95417af89a6b8794c310cf0"},
	{"§A.3 #4", jabberKey, hex.EncodeToString([]byte(jabber)), "4541669a7eaaee61e708dc7cbcc5eb62"},
	{"§A.3 #5, result not fully reduced", "02" + zeros(31), strings.Repeat("ff", 16), "03" + zeros(15)},
	{"§A.3 #6, + s overflows", "02" + zeros(15) + strings.Repeat("ff", 16), "02" + zeros(15), "03" + zeros(15)},
	{"§A.3 #7, carry into a limb of ones", "01" + zeros(31),
		strings.Repeat("ff", 16) + "f0" + strings.Repeat("ff", 15) + "11" + zeros(15), "05" + zeros(15)},
	{"§A.3 #8, result 2^130-5", "01" + zeros(31),
		strings.Repeat("ff", 16) + "fb" + strings.Repeat("fe", 15) + strings.Repeat("01", 16), zeros(16)},
	{"§A.3 #9, result 2^130-6", "02" + zeros(31), "fd" + strings.Repeat("ff", 15), "fa" + strings.Repeat("ff", 15)},
	{"§A.3 #10, 131-bit intermediate", "0100000000000000 0400000000000000" + zeros(16), `
		e33594d7505e43b90000000000000000 3394d7505e4379cd0100000000000000
		00000000000000000000000000000000 01000000000000000000000000000000`, "14000000000000005500000000000000"},
	{"§A.3 #11, 131-bit result", "0100000000000000 0400000000000000" + zeros(16), `
		e33594d7505e43b90000000000000000 3394d7505e4379cd0100000000000000
		00000000000000000000000000000000`, "13000000000000000000000000000000"},
}

func TestPoly1305Vectors(t *testing.T) { each(t, testPoly1305Vectors) }

func testPoly1305Vectors(t *testing.T) {
	for _, f := range macs {
		for _, v := range macVectors {
			got := mac(f.new(), (*[32]byte)(unhex(v.key)), unhex(v.message))
			if !bytes.Equal(got[:], unhex(v.tag)) {
				t.Errorf("%s: %s: got %x, want %s", f.name, v.name, got, v.tag)
			}
		}
	}
}

func TestOneTimeKeyVectors(t *testing.T) { each(t, testOneTimeKeyVectors) }

func testOneTimeKeyVectors(t *testing.T) {
	for _, v := range []struct{ name, key, nonce, want string }{
		{"§2.6.2", count(0x80, 32), "000000000001020304050607", "8ad5a08b905f81cc815040274ab29471a833b637e3fd0da508dbb8e2fdd1a646"},
		{"§A.4 #1", zeros(32), zeros(12), "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"},
		{"§A.4 #2", zeros(31) + "01", zeros(11) + "02", "ecfa254f845f647473d3cb140da9e87606cb33066c447b87bc2666dde3fbb739"},
		{"§A.4 #3", jabberKey, zeros(11) + "02", "965e3bc6f9ec7ed9560808f4d229f94b137ff275ca9b3fcbdd59deaad23310ae"},
	} {
		var key [8]uint32
		setKey(&key, (*[KeySize]byte)(unhex(v.key)))
		iv := nonceWords((*[NonceSize]byte)(unhex(v.nonce)))
		var got, want poly1305
		keyStream(&got, nil, nil, &key, &iv)
		want.init((*[32]byte)(unhex(v.want)))
		if got != want {
			t.Errorf("%s: got %x, want %x", v.name, got, want)
		}
		if iv[0] != 1 {
			t.Errorf("%s: block counter %d after the one-time key, want 1", v.name, iv[0])
		}
	}
}

func TestAEADVectors(t *testing.T) { each(t, testAEADVectors) }

func testAEADVectors(t *testing.T) {
	for _, v := range []struct{ name, key, nonce, ad, plaintext, ciphertext string }{
		{"§2.8.2", count(0x80, 32), "07000000" + count(0x40, 8), "50515253c0c1c2c3c4c5c6c7", sunscreen, `
			d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6
			3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36
			92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc
			3ff4def08e4b7a9de576d26586cec64b6116 1ae10b594f09e26a7e902ecbd0600691`},
		{"§A.5", jabberKey, "000000000102030405060708", "f33388860000000000004e91",
			"Internet-Drafts are draft documents valid for a maximum of six months and may be updated, replaced, or obsoleted by other " +
				"documents at any time. It is inappropriate to use Internet-Drafts as reference material or to cite them other than as /“work in progress./”", `
			64a0861575861af460f062c79be643bd5e805cfd345cf389f108670ac76c8cb2
			4c6cfc18755d43eea09ee94e382d26b0bdb7b73c321b0100d4f03b7f355894cf
			332f830e710b97ce98c8a84abd0b948114ad176e008d33bd60f982b1ff37c855
			9797a06ef4f0ef61c186324e2b3506383606907b6a7c02b0f9f6157b53c867e4
			b9166c767b804d46a59b5216cde7a4e99040c5a40433225ee282a1b0a06c523e
			af4534d7f83fa1155b0047718cbc546a0d072b04b3564eea1b422273f548271a
			0bb2316053fa76991955ebd63159434ecebb4e466dae5a1073a6727627097a10
			49e617d91d361094fa68f0ff77987130305beaba2eda04df997b714d6c6f2c29
			a6ad5cb4022b02709b eead9d67890cbb22392336fea1851f38`},
		{"draft §A.3.1", count(0x80, 32), count(0x40, 24), "50515253c0c1c2c3c4c5c6c7", sunscreen, `
			bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb
			731c7f1b0b4aa6440bf3a82f4eda7e39ae64c6708c54c216cb96b72e1213b452
			2f8c9ba40db5d945b11b69b982c1bb9e3f3fac2bc369488f76b2383565d3fff9
			21f9664c97637da9768812f615c68b13b52e c0875924c1c7987947deafd8780acf49`},
	} {
		nonce, ad, want := unhex(v.nonce), unhex(v.ad), unhex(v.ciphertext)
		f := New
		if len(nonce) == NonceSizeX {
			f = NewX
		}
		a, err := f(unhex(v.key))
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Seal(nil, nonce, []byte(v.plaintext), ad); !bytes.Equal(got, want) {
			t.Errorf("%s: Seal:\n got %x\nwant %x", v.name, got, want)
		}
		got, err := a.Open(nil, nonce, want, ad)
		if err != nil || string(got) != v.plaintext {
			t.Errorf("%s: Open: got %q, %v", v.name, got, err)
		}
	}
}

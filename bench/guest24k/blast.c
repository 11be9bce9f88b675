// blast: source and sink of the emulated router's traffic. It costs the router little:
// no floating point, one static binary of a few pages, no runtime.
//
//   blast sink tcp|udp PORT                  until the stream ends, or 1 s of silence
//   blast send tcp|udp HOST PORT MS SIZE [PER_SECOND]     floods unless given a rate
//   blast echo PORT                          returns each datagram, until killed
//   blast ping HOST PORT MS EVERY_MS         prints round trips
//   blast check tcp|udp PORT                 a sink that knows what must arrive
//   blast fill tcp HOST PORT BYTES           sends what check tcp expects
//   blast fill udp HOST PORT COUNT PER_SECOND SEGMENT     the same; SEGMENT > 0: by
//                                            UDP_SEGMENT, several datagrams to a call
//
// A receiver prints "ready" when it is bound, and each prints one line of JSON at the end.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

static unsigned char buf[65536], want[65536];

static uint64_t now(void) // ns
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void die(const char *what)
{
	printf("{\"error\":\"%s: %s\"}\n", what, strerror(errno));
	exit(1);
}

static void report(uint64_t bytes, uint64_t calls, uint64_t ns)
{
	struct rusage r;
	getrusage(RUSAGE_SELF, &r);
	uint64_t cpu = (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000ull + r.ru_utime.tv_usec + r.ru_stime.tv_usec;
	printf("{\"bytes\":%llu,\"calls\":%llu,\"us\":%llu,\"cpu_us\":%llu}\n", (unsigned long long)bytes,
	       (unsigned long long)calls, (unsigned long long)ns / 1000, (unsigned long long)cpu);
}

// A socket for both families, bound to port unless it is 0.
static int sock(int type, int port)
{
	int s = socket(AF_INET6, type, 0), one = 1, zero = 0;
	if (s < 0)
		die("socket");
	setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (port) {
		struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
		if (bind(s, (void *)&a, sizeof a))
			die("bind");
		if (type == SOCK_STREAM)
			listen(s, 1);
		printf("ready\n");
		fflush(stdout);
	}
	return s;
}

static void receive_timeout(int s, int seconds)
{
	struct timeval tv = {seconds, 0};
	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
}

// A socket of the peer's own family, connected; TCP is given 20 s.
static int dial(int type, const char *host, int port)
{
	struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	int v6 = strchr(host, ':') != 0;
	if (inet_pton(v6 ? AF_INET6 : AF_INET, host, v6 ? (void *)&a6.sin6_addr : (void *)&a4.sin_addr) != 1)
		die(host);
	for (uint64_t until = now() + 20000000000ull;;) {
		int s = socket(v6 ? AF_INET6 : AF_INET, type, 0);
		if (s < 0)
			die("socket");
		if (!connect(s, v6 ? (void *)&a6 : (void *)&a4, v6 ? sizeof a6 : sizeof a4))
			return s;
		if (now() > until)
			die("connect");
		close(s);
		usleep(100000);
	}
}

// The next n bytes of a content that its seed decides: Marsaglia's xorshift32.
static void content(uint32_t *x, unsigned char *p, int n)
{
	for (int i = 0; i < n; i += 4) {
		*x ^= *x << 13;
		*x ^= *x >> 17;
		*x ^= *x << 5;
		memcpy(p + i, x, n - i < 4 ? n - i : 4);
	}
}

// A datagram of check: its number, its length, then a content that they decide.
static void datagram(unsigned char *p, uint32_t number, int n)
{
	uint32_t length = n, x = number * 2654435761u + 1;
	memcpy(p, &number, 4);
	memcpy(p + 4, &length, 4);
	content(&x, p + 8, n - 8);
}

static int sink(int tcp, int port)
{
	uint64_t bytes = 0, calls = 0, first = 0, last = 0;
	int n, s = sock(tcp ? SOCK_STREAM : SOCK_DGRAM, port), room = 1 << 18;
	if (tcp) {
		int c = accept(s, 0, 0);
		for (first = now(); (n = read(c, buf, sizeof buf)) > 0; calls++)
			bytes += n;
		last = now();
	} else {
		setsockopt(s, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
		receive_timeout(s, 15);
		while ((n = recv(s, buf, sizeof buf, 0)) >= 0) {
			last = now();
			if (!first) {
				first = last;
				receive_timeout(s, 1);
			}
			bytes += n;
			calls++;
		}
	}
	report(bytes, calls, last - first);
	return 0;
}

static int source(int tcp, const char *host, int port, uint64_t ns, int size, int rate)
{
	int s = dial(tcp ? SOCK_STREAM : SOCK_DGRAM, host, port);
	uint64_t bytes = 0, calls = 0, start = now(), t = start;
	memset(buf, 0x5a, sizeof buf);
	while (t - start < ns) {
		if (rate) {
			uint64_t due = start + calls * 1000000000ull / rate;
			if (due > t)
				usleep((due - t) / 1000);
		}
		int n = tcp ? write(s, buf, size) : send(s, buf, size, 0);
		if (n > 0)
			bytes += n;
		else if (tcp)
			die("write");
		calls++;
		t = now();
	}
	if (tcp)
		shutdown(s, SHUT_WR);
	report(bytes, calls, t - start);
	return 0;
}

static void echo(int port)
{
	struct sockaddr_in6 from;
	int s = sock(SOCK_DGRAM, port);
	for (;;) {
		socklen_t l = sizeof from;
		int n = recvfrom(s, buf, sizeof buf, 0, (void *)&from, &l);
		if (n > 0)
			sendto(s, buf, n, 0, (void *)&from, l);
	}
}

static int ascending(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return x < y ? -1 : x > y;
}

static int ping(const char *host, int port, uint64_t ns, uint64_t every)
{
	static uint32_t us[100000];
	int s = dial(SOCK_DGRAM, host, port), got = 0, sent = 0;
	uint64_t start = now(), stop = start + ns, t;
	// The last ones get a second to come back.
	while ((t = now()) < stop + 1000000000ull && !(t > stop && got == sent)) {
		uint64_t due = start + sent * every;
		if (due <= t && due < stop) {
			send(s, &t, sizeof t, 0);
			sent++;
			continue;
		}
		struct pollfd p = {.fd = s, .events = POLLIN};
		uint64_t wait = (due < stop ? due : stop + 1000000000ull) - t;
		struct timespec ts = {wait / 1000000000, wait % 1000000000};
		if (ppoll(&p, 1, &ts, 0) == 1 && recv(s, &t, sizeof t, MSG_DONTWAIT) == sizeof t && got < 100000)
			us[got++] = (now() - t) / 1000;
	}
	qsort(us, got, sizeof us[0], ascending);
	printf("{\"sent\":%d,\"received\":%d,\"p50_us\":%u,\"p99_us\":%u}\n", sent, got, got ? us[got / 2] : 0,
	       got ? us[got * 99 / 100] : 0);
	return 0;
}

static int check(int tcp, int port)
{
	int n, s = sock(tcp ? SOCK_STREAM : SOCK_DGRAM, port), room = 1 << 18;
	uint64_t bytes = 0, calls = 0, bad = 0;
	if (tcp) {
		// The stream is compared in whole words: content() makes no others.
		uint32_t x = 1;
		int c = accept(s, 0, 0), have = 0;
		while ((n = read(c, buf + have, sizeof buf - have)) > 0) {
			have += n;
			int words = have & ~3;
			content(&x, want, words);
			if (memcmp(buf, want, words))
				bad++;
			bytes += n;
			calls++;
			memmove(buf, buf + words, have - words);
			have -= words;
		}
		if (have)
			bad++;
	} else {
		setsockopt(s, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
		receive_timeout(s, 15);
		while ((n = recv(s, buf, sizeof buf, 0)) >= 0) {
			receive_timeout(s, 1);
			uint32_t number = 0;
			memcpy(&number, buf, 4);
			datagram(want, number, n < 8 ? 8 : n);
			if (n < 8 || memcmp(buf, want, n))
				bad++;
			bytes += n;
			calls++;
		}
	}
	printf("{\"bytes\":%llu,\"calls\":%llu,\"bad\":%llu}\n", (unsigned long long)bytes, (unsigned long long)calls,
	       (unsigned long long)bad);
	return 0;
}

static int fill_tcp(const char *host, int port, uint64_t total)
{
	int s = dial(SOCK_STREAM, host, port);
	uint32_t x = 1;
	total &= ~3ull;
	for (uint64_t left = total; left;) {
		int n = left < 16384 ? left : 16384;
		content(&x, buf, n);
		for (int done = 0, k; done < n; done += k)
			if ((k = write(s, buf + done, n - done)) <= 0)
				die("write");
		left -= n;
	}
	shutdown(s, SHUT_WR);
	printf("{\"bytes\":%llu}\n", (unsigned long long)total);
	return 0;
}

static int fill_udp(const char *host, int port, int count, int rate, int segment)
{
	// Of every kind of length that the tunnel treats differently: padded and not, at
	// the MTU, and beyond it, which the system sends in fragments.
	static const int lengths[] = {8, 9, 100, 1000, 1388, 1391, 1392, 2800, 8192};
	int s = dial(SOCK_DGRAM, host, port), calls = 0;
	int whole = !segment || !setsockopt(s, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof segment);
	uint64_t start = now();
	for (int i = 0; i < count; calls++) {
		uint64_t due = start + i * 1000000000ull / rate, t = now();
		if (due > t)
			usleep((due - t) / 1000);
		int n = 0;
		if (segment) { // nine whole ones, and a shorter one to end the batch
			for (int k = 0; k < 10; k++, i++) {
				int l = k < 9 ? segment : segment / 2;
				datagram(buf + n, i, l);
				n += l;
			}
		} else {
			n = lengths[i % (sizeof lengths / sizeof *lengths)];
			datagram(buf, i++, n);
		}
		int l = segment ? segment : n;
		if (whole && send(s, buf, n, 0) != n) {
			if (errno != EIO) // the interface leaves checksums to the system
				die("send");
			whole = 0;
		}
		for (int at = 0; !whole && at < n; at += l)
			if (send(s, buf + at, n - at < l ? n - at : l, 0) < 0)
				die("send");
	}
	printf("{\"calls\":%d,\"segmented\":%s}\n", calls, segment && whole ? "true" : "false");
	return 0;
}

int main(int c, char **v)
{
	const char *what = c > 1 ? v[1] : "";
	int tcp = c > 2 && !strcmp(v[2], "tcp");
	if (!strcmp(what, "sink") && c == 4)
		return sink(tcp, atoi(v[3]));
	if (!strcmp(what, "check") && c == 4)
		return check(tcp, atoi(v[3]));
	if (!strcmp(what, "echo") && c == 3)
		echo(atoi(v[2]));
	if (!strcmp(what, "send") && c >= 7)
		return source(tcp, v[3], atoi(v[4]), atoi(v[5]) * 1000000ull, atoi(v[6]), c > 7 ? atoi(v[7]) : 0);
	if (!strcmp(what, "ping") && c == 6)
		return ping(v[2], atoi(v[3]), atoi(v[4]) * 1000000ull, atoi(v[5]) * 1000000ull);
	if (!strcmp(what, "fill") && tcp && c == 6)
		return fill_tcp(v[3], atoi(v[4]), strtoull(v[5], 0, 0));
	if (!strcmp(what, "fill") && c == 8)
		return fill_udp(v[3], atoi(v[4]), atoi(v[5]), atoi(v[6]), atoi(v[7]));
	return 2;
}

import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.StringJoiner;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jgroups.Address;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.ReceiverAdapter;

/**
 * One member of a JGroups group. It is told what to do by lines of JSON on its standard input, as `group_members.py`
 * says, and answers with lines of JSON. It judges nothing: it notes every delivery, and writes the notes to a file.
 *
 * Arguments: its number, its configuration, the name of the group. It ends when its input does.
 */
public final class GroupMember extends ReceiverAdapter {
    private static final int HEADER_SIZE = 20;
    private static final Pattern FIELD = Pattern.compile("\"(\\w+)\":\\s*(?:\"([^\"]*)\"|(-?\\d+))");

    private final int number;
    private final JChannel channel;
    private volatile Run run = new Run(-1);

    private GroupMember(int number, String configuration) throws Exception {
        this.number = number;
        channel = new JChannel(configuration);
        channel.setName("m" + number);
        channel.setReceiver(this);
    }

    /** What was delivered since the run was announced, and how far this member's own sending has come. */
    private static final class Run {
        private static final int DELIVERIES_MAX = 40_000_000;

        final int id;
        final Semaphore own = new Semaphore(0);
        volatile boolean oneAtATime;
        volatile int sent;
        private long[] messages = new long[1 << 16];
        private long[] sentNs = new long[1 << 16];
        private long[] atNs = new long[1 << 16];
        private int count;

        Run(int id) {
            this.id = id;
        }

        synchronized void add(long message, long sent, long at) {
            if (count == DELIVERIES_MAX) {
                return; // The driver sees that deliveries are missing.
            }
            if (count == messages.length) {
                messages = Arrays.copyOf(messages, 2 * count);
                sentNs = Arrays.copyOf(sentNs, 2 * count);
                atNs = Arrays.copyOf(atNs, 2 * count);
            }
            messages[count] = message;
            sentNs[count] = sent;
            atNs[count++] = at;
        }

        synchronized int count() {
            return count;
        }

        synchronized void write(String path) throws Exception {
            try (FileOutputStream file = new FileOutputStream(path)) {
                for (long[] column : new long[][] {messages, sentNs, atNs}) {
                    ByteBuffer bytes = ByteBuffer.allocate(8 * count).order(ByteOrder.LITTLE_ENDIAN);
                    bytes.asLongBuffer().put(column, 0, count);
                    FileChannel out = file.getChannel();
                    while (bytes.hasRemaining()) {
                        out.write(bytes);
                    }
                }
            }
        }
    }

    @Override
    public void receive(Message message) {
        long now = System.nanoTime();
        ByteBuffer body = ByteBuffer.wrap(message.getRawBuffer(), message.getOffset(), message.getLength());
        int id = body.getInt();
        int sender = body.getInt();
        long key = (long) sender << 32 | body.getInt();
        Run current = run;
        if (current.id != id) {
            return;
        }
        current.add(key, body.getLong(), now);
        if (current.oneAtATime && sender == number) {
            current.own.release();
        }
    }

    private void sendOne(Run current, int size) throws Exception {
        byte[] body = new byte[size];
        ByteBuffer.wrap(body).putInt(current.id).putInt(number).putInt(current.sent).putLong(System.nanoTime());
        channel.send(new Message(null, null, body));
        current.sent++;
    }

    /** Sends `count` messages, or for `millis`; each `period_us`, or one at a time, or as fast as flow control allows. */
    private void send(Run current, Map<String, String> told) {
        int size = Math.max(HEADER_SIZE, intOf(told, "size"));
        int count = intOf(told, "count") > 0 ? intOf(told, "count") : Integer.MAX_VALUE;
        long periodNs = 1000L * intOf(told, "period_us");
        long began = System.nanoTime();
        long end = intOf(told, "millis") > 0 ? began + 1_000_000L * intOf(told, "millis") : Long.MAX_VALUE;
        try {
            while (current.sent < count && System.nanoTime() < end) {
                long due = began + current.sent * periodNs;
                for (long now = System.nanoTime(); now < due; now = System.nanoTime()) {
                    LockSupport.parkNanos(due - now);
                }
                sendOne(current, size);
                if (current.oneAtATime) {
                    current.own.acquire();
                }
            }
            say("\"said\": \"sent\", \"count\": " + current.sent + ", \"ended_ns\": " + System.nanoTime());
        } catch (Exception failure) {
            fail(failure);
        }
    }

    private void obey(Map<String, String> told) throws Exception {
        Run current = run;
        switch (told.get("do")) {
            case "view":
                // The members are an old kind of list that wraps another, and streams nothing.
                StringJoiner names = new StringJoiner("\", \"", "\"", "\"");
                for (Address member : channel.getView().getMembers()) {
                    names.add(member.toString());
                }
                say("\"said\": \"view\", \"members\": [" + names + "]");
                break;
            case "expect":
                run = new Run(intOf(told, "run"));
                System.gc();
                say("\"said\": \"expecting\"");
                break;
            case "send":
                current.oneAtATime = intOf(told, "one_at_a_time") > 0;
                new Thread(() -> send(current, told), "sender").start();
                break;
            case "progress":
                say("\"said\": \"progress\", \"count\": " + current.sent + ", \"ended_ns\": " + System.nanoTime());
                break;
            case "wait":
                long deadline = System.nanoTime() + 1_000_000L * intOf(told, "millis");
                while (current.count() < intOf(told, "total") && System.nanoTime() < deadline) {
                    TimeUnit.MILLISECONDS.sleep(2);
                }
                say("\"said\": \"waited\", \"count\": " + current.count());
                break;
            case "write":
                current.write(told.get("file"));
                say("\"said\": \"written\"");
                break;
            default:
                throw new IllegalArgumentException("nobody can do " + told.get("do"));
        }
    }

    private static int intOf(Map<String, String> told, String name) {
        return Integer.parseInt(told.getOrDefault(name, "0"));
    }

    private static synchronized void say(String fields) {
        System.out.println("{" + fields + "}");
        System.out.flush();
    }

    private static void fail(Exception failure) {
        failure.printStackTrace();
        say("\"said\": \"failed\", \"why\": \"" + failure.toString().replaceAll("[^ -!#-\\[\\]-~]", " ") + "\"");
    }

    public static void main(String[] arguments) throws Exception {
        GroupMember member = new GroupMember(Integer.parseInt(arguments[0]), arguments[1]);
        member.channel.connect(arguments[2]);
        say("\"said\": \"joined\"");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            Map<String, String> told = new HashMap<>();
            for (Matcher field = FIELD.matcher(line); field.find(); ) {
                told.put(field.group(1), field.group(2) != null ? field.group(2) : field.group(3));
            }
            try {
                member.obey(told);
            } catch (Exception failure) {
                fail(failure);
            }
        }
        Runtime.getRuntime().halt(0);
    }
}

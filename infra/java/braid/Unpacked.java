package braid;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.zip.GZIPInputStream;

import org.apache.spark.sql.api.java.UDF1;

/** What is in a file that gzip has packed; null if it is damaged, or so large that it would fill the memory. */
public final class Unpacked implements UDF1<byte[], byte[]> {
    private static final int LARGEST = 512 << 20;

    @Override
    public byte[] call(byte[] packed) {
        try (GZIPInputStream stream = new GZIPInputStream(new ByteArrayInputStream(packed), 1 << 16)) {
            byte[] content = stream.readNBytes(LARGEST);
            return stream.read() < 0 ? content : null;
        } catch (IOException damaged) {
            return null;
        }
    }
}
